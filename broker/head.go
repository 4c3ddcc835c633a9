package broker

import (
	"bytes"
	"fmt"
	"strconv"
)

// The stored form of a head has decimal numbers, which a store's scripts can read and
// write, and a tail of fields, which they only carry:
//
//	epoch,state,finished µs,deliveries,failures,crashes,snoozes;tail
//
// A fresh job has no stored head.
const headNumbers = 7

// Field numbers of the tail, and of one failure in it.
const (
	tailVersion = iota + 1 // written only if it is not 1
	tailReason
	tailSuppressed
	tailResult
	tailDropped
	tailFailure
	tailCheckpoint
	tailStep
	tailDone
	tailTotal
	tailNote
	tailPutOff
)

const (
	failureAt = iota + 1
	failureAttempt
	failureCode
	failureClass
	failureMessage
	failureStack
	failureWorker
	failureVersion
)

// AppendHead appends the stored form of a head, with the job's state.
func AppendHead(dst []byte, state State, h *Head) []byte {
	for i, v := range [headNumbers]int64{h.Epoch, int64(state), Micros(h.FinishedAt),
		int64(h.Deliveries), int64(h.Failures), int64(h.Crashes), int64(h.Snoozes)} {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, v, 10)
	}
	return AppendTail(append(dst, ';'), h)
}

// ParseHead reads a stored head.
func ParseHead(p []byte) (State, Head, error) {
	numbers, tail, ok := bytes.Cut(p, []byte{';'})
	if !ok || bytes.Count(numbers, []byte{','}) != headNumbers-1 {
		return StateNone, Head{}, malformed("head")
	}
	var v [headNumbers]int64
	for i := range v {
		part, rest, _ := bytes.Cut(numbers, []byte{','})
		n, err := strconv.ParseInt(string(part), 10, 64)
		if err != nil {
			return StateNone, Head{}, malformed("head")
		}
		v[i], numbers = n, rest
	}
	h := Head{Epoch: v[0], FinishedAt: FromMicros(v[2]),
		Deliveries: int(v[3]), Failures: int(v[4]), Crashes: int(v[5]), Snoozes: int(v[6])}
	err := ParseTail(tail, &h)
	return State(v[1]), h, err
}

// NewerHead reports whether a newer version of this module wrote h, so that this one can
// read only its counts: h has no history, and what an outcome adds to it is not stored.
func (h *Head) NewerHead() bool { return h.newer }

// AppendTail appends the part of a head that a store only carries: reason, suppressed
// flag, result, error history, what the handler kept and put-offs. For most heads it is empty.
// AppendTail writes back unchanged the fields that ParseTail did not know, so that an
// older worker does not remove what a newer one wrote.
func AppendTail(dst []byte, h *Head) []byte {
	if h.newer {
		return append(dst, h.unknown...)
	}
	w := writer{b: dst}
	w.int(tailReason, int64(h.Reason))
	if h.Suppressed {
		w.int(tailSuppressed, 1)
	}
	w.bytes(tailResult, h.Result)
	w.int(tailDropped, int64(h.Errors.Dropped))
	if len(h.Errors.Entries) > 0 {
		w.failures(h.Errors.Entries)
	}
	if h.Kept != nil {
		w.kept(h.Kept)
	}
	for _, p := range h.PutOffs {
		w.putOff(p)
	}
	return append(w.b, h.unknown...)
}

func (w *writer) failures(entries []Failure) {
	for i := range entries {
		f, from := &entries[i], len(w.b)
		w.time(failureAt, f.At)
		w.int(failureAttempt, int64(f.Attempt))
		w.str(failureCode, f.Code)
		w.str(failureClass, f.Class)
		w.str(failureMessage, f.Message)
		w.str(failureStack, f.Stack)
		w.str(failureWorker, f.Worker)
		w.str(failureVersion, f.Version)
		if len(w.b) == from {
			w.int(failureAttempt+100, 1) // an entry without content is still an entry
		}
		w.enclose(tailFailure, from)
	}
}

// ParseTail sets the fields of h from what AppendTail wrote. h keeps the fields that
// ParseTail does not know. A tail of a newer version answers ErrNewerForm; h then keeps
// it unread, and AppendTail writes it back unchanged.
func ParseTail(p []byte, h *Head) error {
	whole := p
	var kept *Kept
	err := rawFields(p, func(field int, v int64, p, raw []byte) error {
		switch field {
		case tailVersion:
			h.newer, h.unknown = true, whole
			return fmt.Errorf("%w: head version %d, this program reads up to 1", ErrNewerForm, v)
		case tailReason:
			h.Reason = DeadReason(v)
		case tailSuppressed:
			h.Suppressed = v != 0
		case tailResult:
			h.Result = p
		case tailDropped:
			h.Errors.Dropped = int(v)
		case tailFailure:
			f, err := parseFailure(p)
			h.Errors.Entries = append(h.Errors.Entries, f)
			return err
		case tailCheckpoint, tailStep, tailDone, tailTotal, tailNote:
			if kept == nil {
				kept = new(Kept)
			}
			return kept.parse(field, v, p)
		case tailPutOff:
			off, err := parsePutOff(p)
			h.PutOffs = append(h.PutOffs, off)
			return err
		default:
			h.unknown = append(h.unknown[:len(h.unknown):len(h.unknown)], raw...)
		}
		return nil
	})
	if kept != nil {
		h.Kept = kept.orNone()
	}
	return err
}

// parseFailure reads an entry of the history. Rewriting a tail drops the fields of an
// entry that this version does not know. So an entry gets no new fields: they go into
// the tail.
func parseFailure(p []byte) (f Failure, err error) {
	err = fields(p, func(field int, v int64, p []byte) error {
		switch field {
		case failureAt:
			f.At = FromMicros(v)
		case failureAttempt:
			f.Attempt = int(v)
		case failureCode:
			f.Code = string(p)
		case failureClass:
			f.Class = string(p)
		case failureMessage:
			f.Message = string(p)
		case failureStack:
			f.Stack = string(p)
		case failureWorker:
			f.Worker = string(p)
		case failureVersion:
			f.Version = string(p)
		}
		return nil
	})
	return f, err
}
