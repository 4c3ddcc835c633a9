package conformance

import (
	"bytes"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// edit gives a job another payload.
func (c *check) edit(id string, payload []byte) {
	c.tb.Helper()
	r := c.operate(broker.Operation{Kind: broker.OpEdit, Payload: payload}, id)[0]
	c.ok("edit of "+id, r.Err)
}

var editRules = []Rule{
	{"Edit/ReplacesThePayload", "§28", "An edited job has the new payload, and nothing else of it changes, except the epoch of a dead job.",
		moves, func(c *check) {
			c.everyState()
			for state, id := range stateIDs {
				if !state.Editable() {
					continue
				}
				for _, payload := range [][]byte{[]byte("\x00\xffnot\xc3UTF-8"), nil, bytes.Repeat([]byte("long "), 150)} {
					want := *c.must(id, state)
					want.Payload = payload
					if state == broker.StateDead {
						want.Epoch++
					}
					r := c.operate(broker.Operation{Kind: broker.OpEdit, Payload: payload}, id)[0]
					c.ok(fmt.Sprintf("edit of a job that is %v", state), r.Err)
					c.same("state", r.State, state)
					got := *c.must(id, state)
					c.that(bytes.Equal(got.Payload, payload), "payload\ngot  %s\nwant %s", show(got.Payload), show(payload))
					got.Payload = payload // an empty one may come back as nil
					c.same("the edited job", got, want)
				}
			}
		}},
	{"Edit/ReachesItsRun", "§28", "A worker is given the payload of the last edit, and the job's other fields as they were.", moves,
		func(c *check) {
			j := c.job("a")
			j.Body.Headers = map[string]string{"k": "\xff"}
			j.Body.Key, j.Body.Retention, j.Body.CorrelationID = "tenant", time.Hour, "correlation"
			c.accept(j)
			c.edit("a", []byte("once"))
			c.edit("a", []byte("and again"))
			w := c.worker("w")
			held := w.one("a")
			want := j.Body
			want.Payload = []byte("and again")
			c.same("the claimed body", held.Body, want)
			w.settle(broker.Die(broker.ReasonRetries, failure("x")), held)
			c.edit("a", []byte("after its death"))
			c.decide(broker.OpRedrive, "a")
			c.same("payload of the redriven job", string(w.one("a").Payload), "after its death")
		}},
	{"Edit/KeepsThePlace", "§28", "A pending job keeps its position and its epoch.", moves, func(c *check) {
		c.add("a", "b", "c")
		ref := c.must("b", broker.StatePending).Ref()
		c.edit("b", []byte("edited"))
		c.edit("a", []byte("edited"))
		r := c.operate(broker.Operation{Kind: broker.OpEdit, Payload: []byte("again"), Refs: []broker.Ref{ref}})
		c.ok("edit at the epoch from before", r[0].Err)
		c.worker("w").take("a", "b", "c")
	}},
	{"Edit/MakesCopiesOfTheDeadStale", "§28", "A decision about a dead job at the epoch from before its edit is refused.", moves,
		func(c *check) {
			c.everyState()
			before := c.must("dead", broker.StateDead).Ref()
			c.edit("dead", []byte("edited"))
			for _, kind := range []broker.OperationKind{broker.OpDelete, broker.OpEdit, broker.OpRedrive} {
				r := c.operate(broker.Operation{Kind: kind, Refs: []broker.Ref{before}})
				c.is(kind.String()+" at the epoch from before", r[0].Err, broker.ErrWrongState)
			}
			c.same("payload", string(c.must("dead", broker.StateDead).Payload), "edited")
		}},
	{"Edit/OtherStatesAreRefused", "§28", "An active, held, completed or cancelled job is not edited.", moves, func(c *check) {
		c.everyState()
		c.add("held")
		c.hold("held")
		ids := map[broker.State]string{broker.StateWaiting: "held"}
		for state, id := range stateIDs {
			ids[state] = id
		}
		for state, id := range ids {
			if state.Editable() {
				continue
			}
			before := *c.must(id, state)
			r := c.operate(broker.Operation{Kind: broker.OpEdit, Payload: []byte("edited")}, id)[0]
			c.is(fmt.Sprintf("edit of a job that is %v", state), r.Err, broker.ErrWrongState)
			c.same("holder", r.Holder, before.Holder)
			c.same("the refused job", *c.must(id, state), before)
		}
		c.is("edit of no job", c.operate(broker.Operation{Kind: broker.OpEdit}, "unknown")[0].Err, broker.ErrNotFound)
	}},
	{"Edit/RefusesWhatIsInvalid", "§28",
		"An edit of several jobs, a payload over the limit, and a payload in another operation are refused, and nothing changes.", moves,
		func(c *check) {
			c.add("a", "b")
			for _, bad := range []struct {
				op   broker.Operation
				want error
			}{
				{broker.Operation{Kind: broker.OpEdit, Refs: []broker.Ref{c.ref("a"), c.ref("b")}}, broker.ErrInvalid},
				{broker.Operation{Kind: broker.OpEdit, Refs: []broker.Ref{c.ref("a")}, Payload: make([]byte, c.limits.PayloadLimit()+1)},
					broker.ErrTooLarge},
				{broker.Operation{Kind: broker.OpCancel, Refs: []broker.Ref{c.ref("a")}, Payload: []byte("p")}, broker.ErrInvalid},
			} {
				bad.op.Now = c.now
				_, err := c.b.Operate(c.ctx, bad.op)
				c.is("Operate", err, bad.want)
			}
			largest := bytes.Repeat([]byte("x"), c.limits.PayloadLimit())
			c.edit("b", largest)
			w := c.worker("w")
			got := w.take("a", "b")
			c.same("payload of the job that was not edited", string(got[0].Payload), "payload of a")
			c.that(bytes.Equal(got[1].Payload, largest), "payload\ngot  %s\nwant the largest there may be", show(got[1].Payload))
		}},
	{"Broken/EditKeepsWhatIsNewer", "§28", "An edit keeps fields of the stored body that this program does not know.", moves, func(c *check) {
		c.add("a")
		body := c.job("a").Body
		c.store.PlantBody(c.tb, c.q, "a", append(broker.AppendBody(nil, &body), "\xff\x7f\x03new"...)) // field 8191, three bytes
		c.that(c.must("a", broker.StatePending).Newer(), "the planted body\ngot  nothing unknown in it\nwant a field of a newer version")
		c.edit("a", []byte("edited"))
		j := c.worker("w").one("a")
		c.that(j.Newer() && string(j.Payload) == "edited", "the edited job\ngot  payload %s, fields of a newer version %t\nwant both",
			show(j.Payload), j.Newer())
		c.refuse(broker.NewJob{Queue: "other", ID: "copy", Body: j.Body}, broker.ErrNewerForm)
	}},
	{"Broken/EditRefusesWhatItCannotRead", "§28",
		"A body that cannot be read is not edited: ErrNewerForm or ErrMalformed, and nothing changes.", moves, func(c *check) {
			w := c.brokenJobs()
			for id, want := range map[string]error{"newer": broker.ErrNewerForm, "malformed": broker.ErrMalformed,
				"empty": broker.ErrMalformed} {
				c.is("edit of "+id, c.operate(broker.Operation{Kind: broker.OpEdit, Payload: []byte("edited")}, id)[0].Err, want)
				c.is("Broken of "+id, c.must(id, broker.StatePending).Broken, want)
			}
			w.take("a", "newer", "malformed", "empty", "b")
		}},
}
