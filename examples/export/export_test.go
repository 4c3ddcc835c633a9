package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/jobstest"
)

// died returns a broker with n dead jobs.
func died(t *testing.T, n int) *jobstest.Broker {
	t.Helper()
	b := jobstest.New(t)
	for i := range n {
		task := jobs.NewTask("import", []byte{byte(i)}, jobs.WithQueue("mail"), jobs.WithMaxRetries(0))
		if _, err := b.Client().Enqueue(t.Context(), task); err != nil {
			t.Fatal(err)
		}
	}
	jobstest.Drain(t, b, jobs.HandlerFunc(func(context.Context, *jobs.Job) error { return errors.New("no") }))
	return b
}

func dead(t *testing.T, b *jobstest.Broker) int64 {
	t.Helper()
	q, err := inspect.New(b).Queue(t.Context(), "mail")
	if err != nil {
		t.Fatal(err)
	}
	return q.Counts[jobs.StateDead]
}

func TestExport_JobsAreDeletedWhenTheirObjectIsStored(t *testing.T) {
	t.Parallel()
	const n = 250 // more than one object
	b, objects := died(t, n), make(map[string][]byte)
	down := errors.New("503 from the object store")
	refuse := func(context.Context, string, []byte) error { return down }
	if _, err := Export(t.Context(), inspect.New(b), "mail", refuse); !errors.Is(err, down) {
		t.Errorf("without an object store: %v, want %v", err, down)
	}
	if left := dead(t, b); left != n {
		t.Errorf("%d jobs are left of %d that were not stored", left, n)
	}
	report, err := Export(t.Context(), inspect.New(b), "mail", func(_ context.Context, name string, data []byte) error {
		objects[name] = bytes.Clone(data)
		return nil
	})
	if err != nil || report.Done != n || len(objects) < 2 || dead(t, b) != 0 {
		t.Errorf("%+v, %v, %d objects, %d jobs are left; want %d jobs in some objects, and none left",
			report, err, len(objects), dead(t, b), n)
	}
	other, lines := jobstest.New(t), 0
	for name, data := range objects {
		lines += bytes.Count(data, []byte("\n"))
		if _, err := inspect.New(other).Import(t.Context(), bytes.NewReader(data), inspect.ImportConfig{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if lines != n || dead(t, other) != n {
		t.Errorf("%d lines were exported, and %d dead jobs imported; want %d", lines, dead(t, other), n)
	}
}

func TestBucket_PutsAnObjectOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		if got = append(got, fmt.Sprintf("%s %s %s", r.Method, r.URL.EscapedPath(), data)); len(got) > 1 {
			http.Error(w, "SlowDown", http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	b := Bucket{URL: s.URL + "/archive", Region: "us-east-1", Client: s.Client()}
	if err := b.Put(t.Context(), "mail: 1.ndjson", []byte("x")); err != nil || got[0] != "PUT /archive/mail%3A%201.ndjson x" {
		t.Errorf("it sent %q, %v", got, err)
	}
	if err := b.Put(t.Context(), "b", nil); err == nil || !strings.Contains(err.Error(), "SlowDown") {
		t.Errorf("after a refusal: %v, want what the store says", err)
	}
}

// The request "GET Bucket Lifecycle" and its signature are from Amazon's documentation
// of the header Authorization.
func TestBucket_SignsAsAmazonDoes(t *testing.T) {
	t.Parallel()
	b := Bucket{Region: "us-east-1", Key: "AKIAIOSFODNN7EXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://examplebucket.s3.amazonaws.com/?lifecycle", nil)
	b.sign(r, nil, time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC))
	const want = "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
	if got := r.Header.Get("Authorization"); !strings.HasSuffix(got, "Signature="+want) {
		t.Errorf("the header is %s, want the signature %s", got, want)
	}
}
