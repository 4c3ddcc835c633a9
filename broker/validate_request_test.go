package broker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// For each request: what is valid, and each field's bad values.

func TestValidateRequest_EnqueueAndClaimRequestsAreChecked(t *testing.T) {
	t.Parallel()
	enqueue := broker.EnqueueRequest{Jobs: make([]broker.NewJob, broker.MaxBatch+1)}
	checkRefusals(t, "enqueue", []bad{{"too many jobs", enqueue.Check(), broker.ErrInvalid, []string{"jobs", "10001", "10000", "split"}}})

	with := func(change func(*broker.ClaimRequest)) error {
		r := broker.ClaimRequest{Worker: "w", Max: 10, Queues: []broker.Share{{Queue: "q", Max: 10}}}
		change(&r)
		return r.Check()
	}
	if err := with(func(*broker.ClaimRequest) {}); err != nil {
		t.Errorf("a valid claim was refused: %v", err)
	}
	release := broker.SettleRequest{Worker: "w", Number: 1, Items: []broker.Settlement{{Job: &broker.Job{}, Outcome: broker.Release()}}}
	all := append(badNames("worker", true, func(s string) error { return with(func(r *broker.ClaimRequest) { r.Worker = s }) }),
		queueRefusals(func(s string) error { return with(func(r *broker.ClaimRequest) { r.Queues[0].Queue = s }) })...)
	all = append(all, []bad{
		{"negative max", with(func(r *broker.ClaimRequest) { r.Max = -1 }), broker.ErrInvalid, []string{"max", "-1", "0 to 1000"}},
		{"large max", with(func(r *broker.ClaimRequest) { r.Max = 1001 }), broker.ErrInvalid, []string{"max", "1001", "0 to 1000"}},
		{"negative share", with(func(r *broker.ClaimRequest) { r.Queues[0].Max = -1 }), broker.ErrInvalid, []string{"share", "-1", "0 to 1000"}},
		{"large share", with(func(r *broker.ClaimRequest) { r.Queues[0].Max = 1001 }), broker.ErrInvalid, []string{"share", "1001", "0 to 1000"}},
		{"negative wait", with(func(r *broker.ClaimRequest) { r.Wait = -1 }), broker.ErrInvalid, []string{"wait", "-1ns", "12h"}},
		{"long wait", with(func(r *broker.ClaimRequest) { r.Wait = broker.MaxWait + 1 }), broker.ErrInvalid, []string{"wait", "12h"}},
		{"wait behind a settle", with(func(r *broker.ClaimRequest) { r.Wait, r.Settle = 1, release }), broker.ErrInvalid,
			[]string{"wait", "send those first"}},
		{"settle of another worker", with(func(r *broker.ClaimRequest) { r.Settle, r.Worker = release, "v" }), broker.ErrInvalid,
			[]string{"settle worker", "of its own"}},
	}...)
	checkRefusals(t, "claim", all)
	checkRefusals(t, "settle", []bad{
		{"bad settle in a claim", with(func(r *broker.ClaimRequest) { r.Settle = release; r.Settle.Number = 0 }), broker.ErrInvalid,
			[]string{"number", "0", "from 1"}},
	})
}

func TestValidateRequest_SettleRequestsAreChecked(t *testing.T) {
	t.Parallel()
	with := func(change func(*broker.SettleRequest)) error {
		r := broker.SettleRequest{Worker: "w", Number: 1, Items: []broker.Settlement{
			{Job: &broker.Job{Queue: "q", ID: "first"}, Outcome: broker.Release()},
			{Job: &broker.Job{Queue: "q", ID: "second"}, Outcome: broker.Release()}}}
		change(&r)
		return r.Check()
	}
	if err := with(func(*broker.SettleRequest) {}); err != nil {
		t.Errorf("a valid settle was refused: %v", err)
	}
	outcome := func(o broker.Outcome) error {
		return with(func(r *broker.SettleRequest) { r.Items[1].Outcome = o })
	}
	all := append(badNames("worker", true, func(s string) error { return with(func(r *broker.SettleRequest) { r.Worker = s }) }), []bad{
		{"no number", with(func(r *broker.SettleRequest) { r.Number = 0 }), broker.ErrInvalid, []string{"number", "0", "from 1"}},
		{"too many", with(func(r *broker.SettleRequest) { r.Items = make([]broker.Settlement, broker.MaxBatch+1) }), broker.ErrInvalid,
			[]string{"items", "10001", "10000", "split"}},
		{"no job", with(func(r *broker.SettleRequest) { r.Items[1].Job = nil }), broker.ErrInvalid, []string{"items", "item 1"}},
		{"no outcome", outcome(broker.Outcome{}), broker.ErrInvalid, []string{"items", "item 1", "second", "constructor"}},
		{"absurd delay", outcome(broker.Retry(broker.MaxDelay+1, broker.Failure{})), broker.ErrInvalid, []string{"delay", "second", "100 years"}},
		{"large result", outcome(broker.Complete(make([]byte, broker.MaxResult+1))), broker.ErrTooLarge,
			[]string{"result", "second", "1048577", "1048576", "elsewhere"}},
	}...)
	checkRefusals(t, "settle", all)
}

func TestValidateRequest_WorkerRequestsAreChecked(t *testing.T) {
	t.Parallel()
	renew := func(worker, queue string, lease time.Duration) error {
		return (&broker.RenewRequest{Worker: worker, Queues: []string{"a", queue}, Lease: lease}).Check()
	}
	retire := func(worker string, queues ...string) error {
		return (&broker.RetireRequest{Worker: worker, Queues: queues}).Check()
	}
	reclaim := func(worker, queue string, most int) error {
		return (&broker.ReclaimRequest{Worker: worker, Queues: []string{queue}, Max: most}).Check()
	}
	prune := func(queue string, most int) error {
		return (&broker.PruneRequest{Queues: []string{queue}, Max: most}).Check()
	}
	for _, err := range []error{renew("w", "q", time.Millisecond), retire("w", "q"), reclaim("w", "q", 1000), prune("q", 10_000)} {
		if err != nil {
			t.Errorf("a valid request was refused: %v", err)
		}
	}
	checkRefusals(t, "renew", slices.Concat(
		badNames("worker", true, func(s string) error { return renew(s, "q", time.Second) }),
		queueRefusals(func(s string) error { return renew("w", s, time.Second) }),
		badDurations("lease", func(d time.Duration) error { return renew("w", "q", d) }),
		[]bad{
			{"short lease", renew("w", "q", 999*time.Microsecond), broker.ErrInvalid, []string{"lease", "999µs", "1ms"}},
			{"no queues", (&broker.RenewRequest{Worker: "w", Lease: time.Second}).Check(), broker.ErrInvalid,
				[]string{"queues", "empty", "at least one"}},
		}))
	checkRefusals(t, "retire", slices.Concat(
		badNames("worker", true, func(s string) error { return retire(s, "q") }),
		queueRefusals(func(s string) error { return retire("w", s) }),
		[]bad{{"no queues", retire("w"), broker.ErrInvalid, []string{"queues", "empty", "at least one"}}}))
	checkRefusals(t, "reclaim", slices.Concat(
		badNames("worker", true, func(s string) error { return reclaim(s, "q", 1) }),
		queueRefusals(func(s string) error { return reclaim("w", s, 1) }),
		[]bad{
			{"nothing", reclaim("w", "q", 0), broker.ErrInvalid, []string{"max", "0", "1 to 1000"}},
			{"too much", reclaim("w", "q", 1001), broker.ErrInvalid, []string{"max", "1001", "1 to 1000"}},
		}))
	checkRefusals(t, "prune", slices.Concat(
		queueRefusals(func(s string) error { return prune(s, 1) }),
		[]bad{
			{"nothing", prune("q", 0), broker.ErrInvalid, []string{"max", "0", "1 to 10000"}},
			{"too much", prune("q", 10_001), broker.ErrInvalid, []string{"max", "10001", "1 to 10000"}},
		}))
}

func TestValidateRequest_QueriesAndOperationsAreChecked(t *testing.T) {
	t.Parallel()
	find := func(change func(*broker.Query)) error {
		q := broker.Query{Queue: "q", State: broker.StateDead}
		change(&q)
		return q.Check()
	}
	q := broker.Query{Queue: "q", IDs: []string{"a"}}
	if err := q.Check(); err != nil || q.Limit != 100 {
		t.Errorf("a valid query was refused or not given the default limit: %d, %v", q.Limit, err)
	}
	checkRefusals(t, "find", slices.Concat(
		queueRefusals(func(s string) error { return find(func(q *broker.Query) { q.Queue = s }) }),
		badNames("key", false, func(s string) error { return find(func(q *broker.Query) { q.Key = s }) }),
		badNames("worker", false, func(s string) error { return find(func(q *broker.Query) { q.Worker = s }) }),
		[]bad{
			{"negative limit", find(func(q *broker.Query) { q.Limit = -1 }), broker.ErrInvalid, []string{"limit", "-1", "1 to 5000"}},
			{"large limit", find(func(q *broker.Query) { q.Limit = 5001 }), broker.ErrInvalid, []string{"limit", "5001", "1 to 5000"}},
			{"many ids", find(func(q *broker.Query) { q.IDs = make([]string, 1001) }), broker.ErrInvalid,
				[]string{"ids", "1001", "1000", "in parts"}},
			{"an id that no job has", find(func(q *broker.Query) { q.IDs = []string{"a", "b\x00"} }), broker.ErrInvalid,
				[]string{"id", "control character", "remove it"}},
			{"nothing selected", find(func(q *broker.Query) { q.State = 0 }), broker.ErrInvalid, []string{"state", "not set", "select by"}},
		}))

	operate := func(change func(*broker.Operation)) error {
		o := broker.Operation{Kind: broker.OpReschedule, Refs: []broker.Ref{{Queue: "q", ID: "a"}}}
		change(&o)
		return o.Check(broker.Limits{})
	}
	if err := operate(func(*broker.Operation) {}); err != nil {
		t.Errorf("a valid operation was refused: %v", err)
	}
	checkRefusals(t, "reschedule", slices.Concat(
		queueRefusals(func(s string) error { return operate(func(o *broker.Operation) { o.Refs[0].Queue = s }) }),
		badDurations("delay", func(d time.Duration) error { return operate(func(o *broker.Operation) { o.Delay = d }) }),
		badTimes("run at", func(at time.Time) error { return operate(func(o *broker.Operation) { o.RunAt = at }) }),
		[]bad{
			{"many refs", operate(func(o *broker.Operation) { o.Refs = make([]broker.Ref, 1001) }), broker.ErrInvalid,
				[]string{"refs", "1001", "1000", "in parts"}},
			{"an id that no job has", operate(func(o *broker.Operation) { o.Refs[0].ID = "\xff" }), broker.ErrInvalid,
				[]string{"id", "UTF-8", "encode it"}},
			{"two times", operate(func(o *broker.Operation) { o.Delay, o.RunAt = 1, time.Unix(2e9, 0) }), broker.ErrInvalid,
				[]string{"delay", "run at", "one of them"}},
		}))
	with := func(kind broker.OperationKind, holder string, payload []byte, refs ...string) error {
		o := broker.Operation{Kind: kind, Holder: holder, Payload: payload}
		for _, id := range refs {
			o.Refs = append(o.Refs, broker.Ref{Queue: "q", ID: id})
		}
		return o.Check(broker.Limits{MaxPayload: 10})
	}
	for _, err := range []error{with(broker.OpHold, "h", nil, "a", "b"), with(broker.OpUnhold, "", nil, "a"),
		with(broker.OpUnhold, "h", nil, "a"),
		with(broker.OpDelete, "h", nil, "a"), with(broker.OpEdit, "", make([]byte, 10), "a")} {
		if err != nil {
			t.Errorf("a valid operation was refused: %v", err)
		}
	}
	checkRefusals(t, "hold", slices.Concat(
		badNames("holder", false, func(s string) error { return with(broker.OpHold, s, nil, "a") }),
		[]bad{{"no holder", with(broker.OpHold, "", nil, "a"), broker.ErrInvalid, []string{"holder", "empty", "for what"}}}))
	checkRefusals(t, "edit", []bad{
		{"a large payload", with(broker.OpEdit, "", make([]byte, 11), "a"), broker.ErrTooLarge, []string{"payload", "11", "10", "reference"}},
		{"two jobs", with(broker.OpEdit, "", nil, "a", "b"), broker.ErrInvalid, []string{"refs", "2", "one job at a time"}},
		{"a holder", with(broker.OpEdit, "h", nil, "a"), broker.ErrInvalid, []string{"holder", "hold, unhold and delete"}},
	})
	checkRefusals(t, "unhold", []bad{
		{"a payload", with(broker.OpUnhold, "", []byte("p"), "a"), broker.ErrInvalid, []string{"payload", "edit"}},
	})
	checkRefusals(t, "invalid", []bad{
		{"unknown kind", operate(func(o *broker.Operation) { o.Kind = 99 }), broker.ErrInvalid, []string{"kind", "99"}},
	})
}

func TestValidateRequest_PoliciesMarksAndWatchesAreChecked(t *testing.T) {
	t.Parallel()
	if err := (&broker.PolicyRequest{Queue: "q"}).Check(broker.Limits{}); err != nil {
		t.Errorf("reading a policy was refused: %v", err)
	}
	retention := func(r broker.Retention) error {
		return (&broker.PolicyRequest{Queue: "q", RetainDead: &r}).Check(broker.Limits{})
	}
	negative := int64(-2)
	checkRefusals(t, "policy", slices.Concat(
		queueRefusals(func(s string) error { return (&broker.PolicyRequest{Queue: s}).Check(broker.Limits{}) }),
		badDurations("keep dead", func(d time.Duration) error { return retention(broker.Retention{Age: d}) }),
		badDurations("keep completed", func(d time.Duration) error {
			return (&broker.PolicyRequest{Queue: "q", RetainCompleted: &broker.Retention{Age: d}}).Check(broker.Limits{})
		}),
		badDurations("duplicate span", func(d time.Duration) error {
			return (&broker.PolicyRequest{Queue: "q", DuplicateSpan: &d}).Check(broker.Limits{})
		}),
		[]bad{
			{"negative count", retention(broker.Retention{Count: -1}), broker.ErrInvalid, []string{"keep dead count", "-1", "0 (no limit)"}},
			{"a round without a turn for each priority", (&broker.PolicyRequest{Queue: "q", PriorityRound: new(int64(3))}).Check(broker.Limits{}),
				broker.ErrInvalid, []string{"priority round", "3", "0 (urgent jobs first) or 4 to 1000"}},
			{"a round too long", (&broker.PolicyRequest{Queue: "q", PriorityRound: new(int64(1001))}).Check(broker.Limits{}), broker.ErrInvalid,
				[]string{"priority round", "1001", "0 (urgent jobs first) or 4 to 1000"}},
			{"a negative round", (&broker.PolicyRequest{Queue: "q", PriorityRound: new(int64(-4))}).Check(broker.Limits{}), broker.ErrInvalid,
				[]string{"priority round", "-4"}},
			{"negative depth", (&broker.PolicyRequest{Queue: "q", MaxDepth: &negative}).Check(broker.Limits{}), broker.ErrInvalid,
				[]string{"max depth", "-2", "NoLimit"}},
			{"no rate, in a time", (&broker.PolicyRequest{Queue: "q", Rate: &broker.Rate{Jobs: broker.NoLimit, Per: time.Second}}).
				Check(broker.Limits{}), broker.ErrInvalid, []string{"rate", "NoLimit", "leave"}},
		}))

	mark := func(change func(*broker.MarkRequest)) error {
		r := broker.MarkRequest{Action: broker.MarkTake, Name: "m", Owner: "o", TTL: time.Second}
		change(&r)
		return r.Check()
	}
	for _, err := range []error{mark(func(*broker.MarkRequest) {}), (&broker.MarkRequest{Name: "m"}).Check()} {
		if err != nil {
			t.Errorf("a valid mark was refused: %v", err)
		}
	}
	checkRefusals(t, "mark", slices.Concat(
		badNames("name", true, func(s string) error { return mark(func(r *broker.MarkRequest) { r.Name = s }) }),
		badNames("owner", false, func(s string) error { return mark(func(r *broker.MarkRequest) { r.Owner = s }) }),
		[]bad{
			{"unknown action", mark(func(r *broker.MarkRequest) { r.Action = 9 }), broker.ErrInvalid, []string{"action", "9"}},
			{"no owner", mark(func(r *broker.MarkRequest) { r.Owner = "" }), broker.ErrInvalid, []string{"owner", "empty"}},
			{"no ttl", mark(func(r *broker.MarkRequest) { r.TTL = 0 }), broker.ErrInvalid, []string{"ttl", "more than zero"}},
			{"absurd ttl", mark(func(r *broker.MarkRequest) { r.TTL = broker.MaxDelay + 1 }), broker.ErrInvalid, []string{"ttl", "100 years"}},
			{"large value", mark(func(r *broker.MarkRequest) { r.Value = make([]byte, broker.MaxResult+1) }), broker.ErrTooLarge,
				[]string{"value", "1048577", "1048576", "elsewhere"}},
		}))
	checkRefusals(t, "watch", slices.Concat(
		queueRefusals(func(s string) error { return (&broker.WatchRequest{Queues: []string{s}}).Check() }),
		[]bad{{"no queues", (&broker.WatchRequest{}).Check(), broker.ErrInvalid, []string{"queues", "empty", "at least one"}}}))
}
