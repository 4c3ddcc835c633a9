package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

func TestCli_ShowsWhatARunningHandlerKept(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cli) {
		c.run(0, "enqueue", "--type", "import", "--queue", "mail", "--id", "a")
		if out := c.run(0, "show", "a"); strings.Contains(out, "PROGRESS") || strings.Contains(out, "CHECKPOINT") ||
			strings.Contains(out, "STEP") {
			t.Errorf("a job of which nothing was kept shows something of that:\n%s", out)
		}
		b, err := c.open(t.Context(), c.url)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		if _, err := b.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: []string{"mail"}, Lease: broker.DefaultLease,
			Register: true}); err != nil {
			t.Fatal(err)
		}
		got, err := b.Claim(t.Context(), broker.ClaimRequest{Worker: "w", Max: 1, Queues: []broker.Share{{Queue: "mail", Max: 1}}})
		if err != nil || len(got.Jobs) != 1 {
			t.Fatal(got.Jobs, err)
		}
		keep := broker.Keep(broker.Kept{Checkpoint: []byte(`{"token":"secret"}`),
			Steps:    []broker.DoneStep{{Name: "charge", Result: []byte(`"secret"`)}, {Name: "\u202eship"}},
			Progress: broker.Progress{Done: 30, Total: 120, Note: "sending \u202eto"}})
		req := broker.SettleRequest{Worker: "w", Number: 1, Items: []broker.Settlement{{Job: &got.Jobs[0], Outcome: keep}}}
		if v, err := b.Settle(t.Context(), req); err != nil || v[0].Err != nil {
			t.Fatal(v, err)
		}
		out := c.run(0, "show", "a")
		c.has(out, `STATE +active`, `PROGRESS +30 of 120 \(25 %\): sending .*to`, `STEP DONE +charge\n`, `STEP DONE .*ship *\n`,
			`CHECKPOINT +18 bytes`)
		if strings.Contains(out, "secret") || strings.ContainsAny(out, "\x1b\u202e") {
			t.Errorf("the checkpoint is shown without --payload, or bytes that a terminal obeys:\n%q", out)
		}
		c.has(c.run(0, "show", "a", "--payload"), `CHECKPOINT\n  \{\n    "token": "secret"`)
		var v jobView
		if err := json.Unmarshal([]byte(c.run(0, "show", "a", "--json")), &v); err != nil || v.Progress == nil ||
			*v.Progress != (progressView{30, 120, "sending \u202eto"}) ||
			v.CheckpointBytes != 18 || len(v.StepsDone) != 2 || v.StepsDone[0] != "charge" || v.Checkpoint != nil {
			t.Errorf("show --json: %+v, %v", v, err)
		}
		if err := json.Unmarshal([]byte(c.run(0, "show", "a", "--json", "--payload")), &v); err != nil ||
			string(v.Checkpoint) != `{"token":"secret"}` {
			t.Errorf("show --json --payload has the checkpoint %s, %v", v.Checkpoint, err)
		}
		if err := json.Unmarshal([]byte(c.run(0, "ls", "--state", "active", "--json")), &v); err != nil || v.Progress == nil ||
			v.Progress.Done != 30 {
			t.Errorf("ls --json has the progress %v, %v", v.Progress, err)
		}
	})
}
