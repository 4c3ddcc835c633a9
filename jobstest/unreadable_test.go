package jobstest_test

import (
	"bytes"
	"testing"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/jobstest"
	"github.com/seed81422ce9/jobs/middleware/payload"
)

// encrypting returns a client whose payloads the helpers cannot read.
func encrypting(t testing.TB, b *jobstest.Broker) *jobs.Client {
	t.Helper()
	ring, err := payload.NewKeyring("k", map[string][]byte{"k": bytes.Repeat([]byte{1}, payload.KeySize)})
	if err != nil {
		t.Fatal(err)
	}
	encode := payload.EncodePayloads(payload.Encrypt(payload.EncryptConfig{Keys: ring}))
	client := jobs.NewClient(b, jobs.ClientConfig{Middleware: []jobs.EnqueueMiddleware{encode}})
	t.Cleanup(func() { client.Close() })
	return client
}

// A test can still ask for the stored bytes.
func TestEnqueued_RawFindsAJobThatIsEncoded(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	info, err := goodbyeMail.Enqueue(t.Context(), encrypting(t, b), goodbye{To: "ada@x"})
	if err != nil {
		t.Fatal(err)
	}
	if got := jobstest.Enqueued(t, b, jobstest.Raw("email:goodbye")); got.ID != info.ID || bytes.Contains(got.Args, []byte("ada")) {
		t.Errorf("found %+v", got)
	}
}

// Nobody knows whether a job matches whose arguments cannot be decoded.
func TestNotEnqueued_DoesNotPassWithAJobThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	fake := inTest(t, func(t *fakeT) {
		b := jobstest.New(t)
		if _, err := goodbyeMail.Enqueue(t.Context(), encrypting(t, b), goodbye{To: "ada@x"}); err != nil {
			t.Fatal(err)
		}
		jobstest.NotEnqueued(t, b, goodbyeMail)
		if all := jobstest.AllEnqueued(t, b, goodbyeMail, jobstest.Args(goodbye{To: "ada@x"})); len(all) != 0 {
			t.Errorf("AllEnqueued gives %+v", all)
		}
		jobstest.NotEnqueued(t, b, jobstest.Raw("email:goodbye"), jobstest.Args([]byte(`{"To":"ada@x"}`)))
		jobstest.NotEnqueued(t, b, goodbyeMail, jobstest.With(jobs.WithQueue("other"))) // it certainly differs
		if _, err := jobstest.Raw("email:goodbye").Enqueue(t.Context(), b.Client(), []byte("not JSON")); err != nil {
			t.Fatal(err)
		}
		jobstest.NotEnqueued(t, b, goodbyeMail, jobstest.Args(goodbye{To: "ada@x"}), jobstest.InState(jobs.StatePending))
	})
	const encrypted = `
1 job of type "email:goodbye" may match, but the arguments cannot be decoded:
  1. job … in queue "default", pending: the payload is encoded (header jobs-encryption); enqueue without EncodePayloads in this test`
	fake.wantText(t, encrypted+encrypted+encrypted+`
2 jobs of type "email:goodbye" may match, but the arguments cannot be decoded:
  1. job … in queue "default", pending: …
  2. job … in queue "default", pending: …`)
}
