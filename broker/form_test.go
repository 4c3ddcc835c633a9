package broker_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestForm_TheStoredFormsAreThoseOfEarlierReleases(t *testing.T) {
	t.Parallel()
	minimal := broker.Body{Type: "t", Priority: broker.PriorityNormal}
	huge, long := minimal, minimal
	huge.Headers = map[string]string{"k": strings.Repeat("v", 300), strings.Repeat("k", 200): ""}
	long.Unique, long.Key = broker.Unique{Key: strings.Repeat("u", 255)}, strings.Repeat("k", 255)
	for name, b := range map[string]broker.Body{
		"body_minimal": minimal, "body_full": fullBody(), "body_huge_header": huge, "body_long_index": long,
	} {
		form := broker.AppendBody(nil, &b)
		golden(t, name+".hex", []byte(hex.Dump(form)))
		if got, err := broker.ParseBody(form); err != nil || !reflect.DeepEqual(got, b) {
			t.Errorf("%s came back as %+v, %v", name, got, err)
		}
	}
	for name, h := range map[string]broker.Head{"head_fresh": {}, "head_full": fullHead()} {
		form := broker.AppendHead(nil, broker.StateDead, &h)
		golden(t, name+".hex", []byte(hex.Dump(form)))
		if state, got, err := broker.ParseHead(form); err != nil || state != broker.StateDead || !reflect.DeepEqual(got, h) {
			t.Errorf("%s came back as %v %+v, %v", name, state, got, err)
		}
	}
	info := fullWorkerInfo()
	form := broker.AppendWorkerInfo(nil, &info)
	golden(t, "worker_full.hex", []byte(hex.Dump(form)))
	if got, err := broker.ParseWorkerInfo(form, info.ID, info.Until, info.Held); err != nil || !reflect.DeepEqual(got, info) {
		t.Errorf("the worker came back as %+v, %v", got, err)
	}
}

// The full examples are what the tests of the stored forms stand on: a field
// that is added to a type must be added to them.
func TestForm_TheFullExamplesSetEveryField(t *testing.T) {
	t.Parallel()
	for _, v := range []any{fullBody(), fullBody().Unique, fullBody().Backoff, fullHead(), fullHead().Errors, fullHead().Errors.Entries[0],
		fullWorkerInfo()} {
		value := reflect.ValueOf(v)
		for i := range value.NumField() {
			if value.Type().Field(i).IsExported() && value.Field(i).IsZero() {
				t.Errorf("%v.%s is not set in the full example", value.Type(), value.Type().Field(i).Name)
			}
		}
	}
}

func TestForm_AnyBodyAndHeadComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	r := newRandom(t)
	prefix := []byte("what was there before")
	for range 1000 {
		b := r.body()
		form := broker.AppendBody(prefix, &b)
		if string(form) != string(broker.AppendBody(prefix, &b)) {
			t.Fatalf("the same body gave two forms: %s", show(b))
		}
		if got, err := broker.ParseBody(form[len(prefix):]); err != nil || !reflect.DeepEqual(got, b) {
			t.Fatalf("the body\n%s\ncame back as\n%s, %v", show(b), show(got), err)
		}
		h, state := r.head(), broker.State(r.IntN(9))
		form = broker.AppendHead(prefix, state, &h)
		if s, got, err := broker.ParseHead(form[len(prefix):]); err != nil || s != state || !reflect.DeepEqual(got, h) {
			t.Fatalf("the head\n%v %s\ncame back as\n%v %s, %v", state, show(h), s, show(got), err)
		}
	}
}

// The index tells which keys a job holds, so that an older program can end it.
func TestForm_ABodyOfANewerVersionIsRefusedButItsIndexIsRead(t *testing.T) {
	t.Parallel()
	b := fullBody()
	form := broker.AppendBody(nil, &b)
	form[0]++
	form = append(form[:len(form)-1], 0xff) // whatever the newer version does with the rest
	got, err := broker.ParseBody(form)
	if !errors.Is(err, broker.ErrNewerForm) {
		t.Fatalf("a newer version was read with error %v, want ErrNewerForm", err)
	}
	held := broker.Unique{Key: b.Unique.Key, Mode: b.Unique.Mode, TTL: b.Unique.TTL} // what ending a job needs
	want := broker.Body{Unique: held, Key: b.Key, GivenID: b.GivenID, Priority: b.Priority}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the index said %+v, want %+v", got, want)
	}
	if _, err := broker.ParseBody([]byte{0, 0}); !errors.Is(err, broker.ErrMalformed) {
		t.Errorf("version 0, which there never was: error %v, want ErrMalformed", err)
	}
}

func TestForm_AHeadOfANewerVersionIsRefused(t *testing.T) {
	t.Parallel()
	_, _, err := broker.ParseHead([]byte("0,0,0,0,0,0,0;\x02\x04")) // field 1, a number: 2
	if !errors.Is(err, broker.ErrNewerForm) {
		t.Errorf("a newer head was read with error %v, want ErrNewerForm", err)
	}
}

func TestForm_AnOlderWorkerStripsNothingFromANewerHead(t *testing.T) {
	t.Parallel()
	const added = "\x63\x03abc" // field 49, three bytes
	for name, stored := range map[string]string{
		"with an added field":             "3,4,0,3,1,0,0;" + added,
		"of a version that is unreadable": "3,4,0,3,1,0,0;\x02\x04" + added,
	} {
		_, h, _ := broker.ParseHead([]byte(stored))
		for step, next := range map[string]broker.Head{
			"settled":  broker.Snooze(time.Second, broker.Failure{}).Apply(h, time.Now(), 0),
			"redriven": h.Redriven(),
			"moved":    h.Moved(),
		} {
			_, tail, _ := strings.Cut(stored, ";")
			if got := string(broker.AppendTail(nil, &next)); got != tail {
				t.Errorf("a head %s lost what it does not know when %s: the tail is %q, it was %q", name, step, got, tail)
			}
		}
	}
}

func TestForm_FieldsThatAreNotKnownAreSkipped(t *testing.T) {
	t.Parallel()
	const number, text = "\xfe\x7f\x08", "\xff\x7f\x03new" // field 8191 in either wire form
	b := fullBody()
	form := string(broker.AppendBody(nil, &b))
	index := int(form[1])
	form = form[:1] + string(rune(index+len(number+text))) + form[2:2+index] + number + text + form[2+index:] + text + number
	if got, err := broker.ParseBody([]byte(form)); err != nil || !got.Newer() ||
		string(broker.AppendBody(nil, &got)) != string(broker.AppendBody(nil, &b)) {
		t.Errorf("with fields of a newer release the body came back as %+v, %v", got, err)
	}
	h := fullHead()
	form = string(broker.AppendHead(nil, broker.StateDead, &h)) + number + text
	if _, got, err := broker.ParseHead([]byte(form)); err != nil || string(broker.AppendHead(nil, broker.StateDead, &got)) != form {
		t.Errorf("with fields of a newer release the head came back as %+v, %v", got, err)
	}
	info := fullWorkerInfo()
	form = string(broker.AppendWorkerInfo(nil, &info)) + number + text
	if got, err := broker.ParseWorkerInfo([]byte(form), info.ID, info.Until, info.Held); err != nil || !reflect.DeepEqual(got, info) {
		t.Errorf("with fields of a newer release the worker came back as %+v, %v", got, err)
	}
}

func TestForm_APayloadIsReplacedWithinItsForm(t *testing.T) {
	t.Parallel()
	const number, text = "\xfe\x7f\x08", "\xff\x7f\x03new" // field 8191 in either wire form
	r := newRandom(t)
	for range 300 {
		b, payload := r.body(), r.bytes()
		form := string(broker.AppendBody(nil, &b))
		got, err := broker.ReplacePayload([]byte(form), payload)
		want := b
		want.Payload = payload
		if err != nil || string(got) != string(broker.AppendBody(nil, &want)) {
			t.Fatalf("with another payload the body\n%s\ncame back as\n%q, %v", show(want), got, err)
		}
		again, err := broker.ReplacePayload([]byte(form+number+text), payload)
		body, parsed := broker.ParseBody(again)
		if err != nil || parsed != nil || !strings.HasSuffix(string(again), number+text) && len(b.Payload) > 0 || !body.Newer() ||
			string(body.Payload) != string(payload) {
			t.Fatalf("with fields of a newer release behind it, the payload of\n%s\ncame back in\n%q, %v, %v", show(want), again, err, parsed)
		}
	}
	for name, form := range map[string]string{"a newer version": "\x02\x00\x03\x01t", "nothing": "", "text cut off": "\x01\x00\x03\x02t"} {
		want := broker.ErrMalformed
		if name == "a newer version" {
			want = broker.ErrNewerForm
		}
		if got, err := broker.ReplacePayload([]byte(form), []byte("p")); got != nil || !errors.Is(err, want) {
			t.Errorf("the payload of %s was replaced: %q, %v; want %v", name, got, err, want)
		}
	}
}

func TestForm_WhatAHandlerReadsIsReplacedWithinItsForm(t *testing.T) {
	t.Parallel()
	const later = "\xff\x7f\x03new" // field 8191
	r := newRandom(t)
	for range 300 {
		b, other := r.body(), r.body()
		other.Type = b.Type
		want := b
		want.CopyContent(&other)
		form, err := broker.ReplaceContent(append(broker.AppendBody(nil, &b), later...), &other)
		got, parsed := broker.ParseBody(form)
		if err != nil || parsed != nil || !got.Newer() || string(broker.AppendBody(nil, &got)) != string(broker.AppendBody(nil, &want)) {
			t.Fatalf("with the content of\n%s\nthe body\n%s\ncame back as\n%s, %v, %v", show(other), show(b), show(got), err, parsed)
		}
	}
	b := broker.Body{Type: "other", Priority: broker.PriorityNormal}
	for form, want := range map[string]error{"\x02\x00\x03\x01t": broker.ErrNewerForm, "": broker.ErrMalformed,
		"\x01\x00\x03\x02t": broker.ErrMalformed,
		"\x01\x00\x03\x01t": broker.ErrDuplicate} {
		if got, err := broker.ReplaceContent([]byte(form), &b); got != nil || !errors.Is(err, want) {
			t.Errorf("the content of %q was replaced: %q, %v; want %v", form, got, err, want)
		}
	}
}

// A form that was cut off is an error or, at the border of two fields, a form
// with fewer fields; it never panics and never reads beyond its end.
func TestForm_AFormCutOffAnywhereIsAnErrorOrAPart(t *testing.T) {
	t.Parallel()
	b, h, info := fullBody(), fullHead(), fullWorkerInfo()
	for name, form := range map[string][]byte{
		"body":   broker.AppendBody(nil, &b),
		"head":   broker.AppendHead(nil, broker.StateDead, &h),
		"worker": broker.AppendWorkerInfo(nil, &info),
	} {
		refused := 0
		for n := range len(form) {
			part := form[:n:n]
			var err error
			var again []byte
			switch name {
			case "body":
				var got broker.Body
				got, err = broker.ParseBody(part)
				again = broker.AppendBody(nil, &got)
			case "head":
				var state broker.State
				var got broker.Head
				state, got, err = broker.ParseHead(part)
				again = broker.AppendHead(nil, state, &got)
			case "worker":
				var got broker.WorkerInfo
				got, err = broker.ParseWorkerInfo(part, "", time.Time{}, 0)
				again = broker.AppendWorkerInfo(nil, &got)
			}
			switch {
			case err != nil && !errors.Is(err, broker.ErrMalformed):
				t.Errorf("the first %d bytes of a %s gave error %v, want ErrMalformed", n, name, err)
			case err != nil:
				refused++
			case string(again) != string(part):
				t.Errorf("the first %d bytes of a %s were read without an error, but as something else", n, name)
			}
		}
		if refused < len(form)/2 {
			t.Errorf("only %d of %d parts of a %s were refused", refused, len(form), name)
		}
	}
}

func TestForm_TimesAreRoundedUpToMicroseconds(t *testing.T) {
	t.Parallel()
	second := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		give time.Time
		want time.Time
	}{
		{time.Time{}, time.Time{}},
		{second, second},
		{second.Add(1), second.Add(time.Microsecond)},
		{second.Add(999), second.Add(time.Microsecond)},
		{second.Add(1000), second.Add(time.Microsecond)},
		{second.In(time.FixedZone("east", 3600)), second},
		{time.Unix(0, 1), time.UnixMicro(1).UTC()},
		{time.Unix(-1, 1), time.UnixMicro(-999_999).UTC()},
		{broker.MaxTime.Add(-1), broker.MaxTime},
	} {
		if got := broker.FromMicros(broker.Micros(c.give)); got != c.want {
			t.Errorf("%v is stored as %v, want %v", c.give, got, c.want)
		}
	}
	for give, want := range map[time.Duration]int64{
		0: 0, 1: 1, 999: 1, 1000: 1, 1001: 2, time.Second: 1_000_000, -1: 0, -1000: -1, -1001: -1,
		broker.MaxDelay: 3_153_600_000_000_000,
	} {
		if got := broker.DurationMicros(give); got != want {
			t.Errorf("%v is stored as %d µs, want %d", give, got, want)
		}
	}
}

func TestForm_FormsThatNoReleaseWroteAreRefused(t *testing.T) {
	t.Parallel()
	for name, form := range map[string]string{
		"nothing":                     "",
		"a version alone":             "\x01",
		"an index longer than all":    "\x01\x05\x00",
		"an endless length":           "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"a broken index":              "\x01\x01\x80",
		"an endless tag":              "\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"a number cut off":            "\x01\x00\x04\x80",
		"text cut off":                "\x01\x00\x03\x02t",
		"a header without a key":      "\x01\x00\x09\x00",
		"a header longer than itself": "\x01\x00\x09\x02\x02k",
	} {
		if b, err := broker.ParseBody([]byte(form)); !errors.Is(err, broker.ErrMalformed) {
			t.Errorf("%s was read as %+v, %v; want ErrMalformed", name, b, err)
		}
	}
	for name, form := range map[string]string{
		"nothing":           "",
		"no tail":           "1,2,3,4,5,6,7",
		"six numbers":       "1,2,3,4,5,6;",
		"eight numbers":     "1,2,3,4,5,6,7,8;",
		"an empty number":   "1,2,3,4,5,6,;",
		"no number":         "1,2,3,x,5,6,7;",
		"a number too long": "1,2,3,9223372036854775808,5,6,7;",
		"a broken tail":     "1,2,3,4,5,6,7;\x80",
		"a broken failure":  "1,2,3,4,5,6,7;\x0d\x01\x80",
	} {
		if s, h, err := broker.ParseHead([]byte(form)); !errors.Is(err, broker.ErrMalformed) {
			t.Errorf("%s was read as %v %+v, %v; want ErrMalformed", name, s, h, err)
		}
	}
}

// A damaged record can have any number for a time. One that JSON cannot write would end the list of all other jobs.
func TestFromMicros_AnyNumberIsATimeThatJSONCanWrite(t *testing.T) {
	t.Parallel()
	for _, us := range []int64{math.MinInt64, -62135596800000001, -1, 1, 253402300799999999, 253402300800000000, math.MaxInt64} {
		at := broker.FromMicros(us)
		if _, err := json.Marshal(at); err != nil {
			t.Errorf("%d µs are %v: %v", us, at, err)
		}
		if again := broker.FromMicros(broker.Micros(at)); !again.Equal(at) {
			t.Errorf("%d µs are %v, which is stored as %v", us, at, again)
		}
	}
	for _, us := range []int64{-1, 1, 253402300799999999} {
		if got := broker.Micros(broker.FromMicros(us)); got != us {
			t.Errorf("%d µs came back as %d", us, got)
		}
	}
}
