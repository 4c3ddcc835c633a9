package redisbroker

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/conformance"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func BenchmarkFlow(b *testing.B) {
	options, err := redis.ParseURL(testenv.Redis(b))
	if err != nil {
		b.Fatal(err)
	}
	conformance.BenchFlow(b, func(tb conformance.TB) *conformance.Store {
		o := *options
		return place(tb, placeName(tb), Config{}, redis.NewClient(&o))
	})
}
