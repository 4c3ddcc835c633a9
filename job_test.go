package jobs

import (
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

func TestJob_ViewWithAnotherPayloadIsOfTheSameJob(t *testing.T) {
	t.Parallel()
	job := NewJob(&broker.Job{ID: "id", Body: broker.Body{Type: "mail", Payload: []byte("encoded")}})
	twice := job.WithPayload([]byte("half")).WithPayload([]byte("decoded"))
	if string(twice.Payload()) != "decoded" || twice.ID() != "id" || twice.Type() != "mail" {
		t.Errorf("the view is of job %q, type %q, payload %q", twice.ID(), twice.Type(), twice.Payload())
	}
	if string(job.Payload()) != "encoded" {
		t.Errorf("the job's own payload became %q", job.Payload())
	}
	twice.SetResult([]byte("result"))
	if string(job.result) != "result" {
		t.Errorf("a result set on the view is not the job's, which is %q", job.result)
	}
}
