package backends_test

import (
	"testing"

	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/backends/pgbroker"
	"github.com/seed81422ce9/jobs/backends/redisbroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestAs_WhatABackendAloneCanDoIsFoundInItsBroker(t *testing.T) {
	t.Parallel()
	postgres := testenv.PostgresPlace(t)
	if err := backends.Migrate(t.Context(), postgres); err != nil {
		t.Fatal(err)
	}
	for url, is := range map[string]func(broker.Broker) bool{
		"memory://":           func(b broker.Broker) bool { _, ok := broker.As[*membroker.Broker](b); return ok },
		testenv.RedisPlace(t): func(b broker.Broker) bool { _, ok := broker.As[*redisbroker.Broker](b); return ok },
		postgres:              func(b broker.Broker) bool { _, ok := broker.As[*pgbroker.Broker](b); return ok },
	} {
		b, err := backends.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		if !is(b) {
			t.Errorf("the broker of %.8s… is a %T, and nothing inside of it is the backend's", url, b)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
