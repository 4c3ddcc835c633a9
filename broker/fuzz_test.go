package broker_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

// Whatever bytes are read as a form, they are refused by one of two errors or
// read as something whose own form is stable.

func FuzzParseBody(f *testing.F) {
	minimal, full := broker.Body{Type: "t", Priority: broker.PriorityNormal}, fullBody()
	f.Add(broker.AppendBody(nil, &minimal))
	f.Add(broker.AppendBody(nil, &full))
	f.Add([]byte{1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1})
	f.Add([]byte{1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1})
	f.Fuzz(func(t *testing.T, p []byte) {
		b, err := broker.ParseBody(p)
		if refusedForm(t, err) {
			return
		}
		form := broker.AppendBody(nil, &b)
		again, err := broker.ParseBody(form)
		if err != nil || !bytes.Equal(form, broker.AppendBody(nil, &again)) {
			t.Errorf("%x was read as %+v, and what that is stored as reads as %+v, %v", p, b, again, err)
		}
	})
}

func FuzzParseHead(f *testing.F) {
	fresh, full := broker.Head{}, fullHead()
	f.Add(broker.AppendHead(nil, broker.StateNone, &fresh))
	f.Add(broker.AppendHead(nil, broker.StateDead, &full))
	f.Add([]byte("-9223372036854775808,256,-62135596800000000,1,1,1,1;\x0d\x00"))
	f.Fuzz(func(t *testing.T, p []byte) {
		state, h, err := broker.ParseHead(p)
		if refusedForm(t, err) {
			return
		}
		form := broker.AppendHead(nil, state, &h)
		state2, again, err := broker.ParseHead(form)
		if err != nil || !bytes.Equal(form, broker.AppendHead(nil, state2, &again)) {
			t.Errorf("%x was read as %v %+v, and what that is stored as reads as %v %+v, %v", p, state, h, state2, again, err)
		}
	})
}

func refusedForm(t *testing.T, err error) bool {
	if err != nil && !errors.Is(err, broker.ErrMalformed) && !errors.Is(err, broker.ErrNewerForm) {
		t.Errorf("refused with %v, which is neither ErrMalformed nor ErrNewerForm", err)
	}
	return err != nil
}
