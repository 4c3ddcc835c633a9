package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

type mailArgs struct {
	To   string
	N    int
	Sent time.Time
}

func TestTyped_ArgumentsReachTheHandlerAsTheyWere(t *testing.T) {
	t.Parallel()
	store := newSpyStore(t)
	c := newTestClient(t, store, ClientConfig{})
	mail := Define[mailArgs]("mail", WithQueue("mails"), WithMaxRetries(3))
	want := mailArgs{To: "ä@example.com", N: 7, Sent: time.Unix(1, 0).UTC()}
	info, err := mail.Enqueue(t.Context(), c, want, WithMaxRetries(4))
	if err != nil || info.Queue != "mails" {
		t.Fatalf("Enqueue: %+v, %v", info, err)
	}
	stored := store.only(t, "mails")
	if stored.MaxRetries != 4 || stored.Type != mail.Type() {
		t.Errorf("the stored job is %+v, want the call's option to win", stored.Body)
	}
	m := NewServeMux()
	var got mailArgs
	Handle(m, mail, func(_ context.Context, args mailArgs, job *Job) error {
		got = args
		return named(job.ID())
	})
	if err := m.ProcessJob(t.Context(), NewJob(&stored)); err != named(info.ID) || got != want {
		t.Errorf("the handler got %+v and returned %v, want %+v and the job's ID", got, err, want)
	}
}

func TestTyped_UndecodablePayloadIsNotRetriedAndNotQuoted(t *testing.T) {
	t.Parallel()
	mail := Define[mailArgs]("mail")
	h := mail.Handler(func(context.Context, mailArgs, *Job) error {
		t.Error("the handler ran")
		return nil
	})
	for payload, words := range map[string]string{
		``:                       "malformed JSON at byte 0",
		`{"To":"secret`:          "malformed JSON at byte 13",
		`{"N":"secret"}`:         `JSON string in field "N", byte 13, does not fit int`,
		`{"N":12345.6}`:          `JSON number in field "N"`,
		`{"Sent":"secret noon"}`: "UnmarshalJSON of a field refused the JSON",
	} {
		err := h.ProcessJob(t.Context(), jobOf("mail", payload))
		if !errors.Is(err, SkipRetry) || !strings.Contains(err.Error(), words) ||
			!strings.Contains(err.Error(), `the payload of "mail" cannot be decoded as a jobs.mailArgs`) {
			t.Errorf("payload %s: got %v, want SkipRetry and %q", payload, err, words)
		}
		if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "12345") {
			t.Errorf("the error quotes the payload: %v", err)
		}
	}
}

func TestTyped_ATypeWithoutFieldsNeedsNoPayload(t *testing.T) {
	t.Parallel()
	type nothing struct{}
	if _, err := Define[nothing]("report:nightly").Decode(nil); err != nil {
		t.Errorf("an empty payload of a type without fields: %v", err)
	}
	if _, err := Define[struct{ ID int }]("report:one").Decode(nil); !errors.Is(err, SkipRetry) {
		t.Errorf("an empty payload of a type with a field: the error is %v, want SkipRetry", err)
	}
	if err := JSON.Decode(nil, nothing{}); err == nil {
		t.Error("JSON decodes into something that is no pointer")
	}
}

func TestTyped_UnencodableArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	if task, err := Define[chan int]("c").Task(nil); task != nil || !errors.Is(err, ErrInvalid) || broker.MayHaveApplied(err) {
		t.Errorf("a channel: %v, %v", task, err)
	}
	if info, err := Define[func()]("f").Enqueue(t.Context(), newTestClient(t, newSpyStore(t), ClientConfig{}), nil); info != nil ||
		!errors.Is(err, ErrInvalid) {
		t.Errorf("a function: %v, %v", info, err)
	}
}

// panicky panics wherever it is asked.
type panicky struct{}

func (panicky) MarshalJSON() ([]byte, error) { panic("boom") }
func (*panicky) UnmarshalJSON([]byte) error  { panic("boom") }

func TestTyped_PanicsOfArgumentsAreErrors(t *testing.T) {
	t.Parallel()
	d := Define[panicky]("p")
	var p *PanicError
	if _, err := d.Task(panicky{}); !errors.Is(err, ErrInvalid) || !errors.As(err, &p) {
		t.Errorf("Task: %v", err)
	}
	if _, err := d.Decode([]byte(`{}`)); !errors.Is(err, SkipRetry) || !errors.As(err, &p) {
		t.Errorf("Decode: %v", err)
	}
	unique := Define[int]("u").UniqueBy(func(int) string { panic("boom") })
	if _, err := unique.Task(1); !errors.Is(err, ErrInvalid) || !errors.As(err, &p) || !strings.Contains(err.Error(), "UniqueBy") {
		t.Errorf("UniqueBy: %v", err)
	}
}

// upper is a codec that shouts.
type upper struct{}

func (upper) Encode(args any) ([]byte, error) {
	p, err := json.Marshal(args)
	return []byte(strings.ToUpper(string(p))), err
}
func (upper) Decode(p []byte, args any) error {
	return json.Unmarshal([]byte(strings.ToLower(string(p))), args)
}

func TestTyped_CodecOfADefinitionIsUsedBothWays(t *testing.T) {
	t.Parallel()
	plain := Define[string]("s")
	loud := plain.WithCodec(upper{})
	task, err := loud.Task("abc")
	if err != nil || string(task.Payload()) != `"ABC"` {
		t.Fatalf("Task: %v, %v", task, err)
	}
	if got, err := loud.Decode(task.Payload()); err != nil || got != "abc" {
		t.Errorf("Decode: %q, %v", got, err)
	}
	if got, err := plain.Decode(task.Payload()); err != nil || got != "ABC" {
		t.Errorf("the definition that it was made from changed: %q, %v", got, err)
	}
}

func TestTyped_UniqueByGivesEachJobItsKey(t *testing.T) {
	t.Parallel()
	c := NewClient(nil, ClientConfig{})
	mail := Define[mailArgs]("mail", WithUniqueUntilDone(time.Hour)).UniqueBy(func(a mailArgs) string { return a.To })
	task, err := mail.Task(mailArgs{To: "a", N: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := described(t, c, task).Body.Unique, (broker.Unique{Key: "a", TTL: time.Hour}); got != want {
		t.Errorf("unique is %+v, want %+v", got, want)
	}
	task, err = mail.Task(mailArgs{N: 1}, WithQueue("q"))
	if err != nil {
		t.Fatal(err)
	}
	if got := described(t, c, task); got.Body.Unique != (broker.Unique{}) || got.Queue != "q" {
		t.Errorf("with an empty key unique is %+v in queue %q", got.Body.Unique, got.Queue)
	}
}

func TestTyped_AJobWhoseKeyIsEmptyIsNotUniqueWhateverTheOptions(t *testing.T) {
	t.Parallel()
	mail := Define[mailArgs]("mail", WithUniqueKey("of all")).UniqueBy(func(a mailArgs) string { return a.To })
	for name, test := range map[string]struct {
		options []Option
		want    broker.Unique
	}{
		"until done":    {[]Option{WithUniqueUntilDone(time.Hour)}, broker.Unique{}},
		"until started": {[]Option{WithUniqueUntilStarted(0)}, broker.Unique{}},
		"window":        {[]Option{WithUniqueWindow(time.Hour)}, broker.Unique{}},
		"keep last":     {[]Option{WithUniqueKeepLast()}, broker.Unique{}},
		"debounce":      {[]Option{WithUniqueDebounce(time.Minute, time.Hour)}, broker.Unique{}},
		"a key":         {[]Option{WithUniqueUntilDone(time.Hour), WithUniqueKey("k")}, broker.Unique{Key: "k", TTL: time.Hour}},
	} {
		store := newSpyStore(t)
		c := newTestClient(t, store, ClientConfig{Defaults: []Option{WithUniqueUntilDone(time.Minute)}})
		if _, err := mail.Enqueue(t.Context(), c, mailArgs{N: 1}, test.options...); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := store.only(t, DefaultQueue); got.Body.Unique != test.want || got.State != StatePending {
			t.Errorf("%s: unique is %+v, %v; want %+v", name, got.Body.Unique, got.State, test.want)
		}
	}
}

func TestTyped_ZeroDefinitionIsRefusedByEnqueue(t *testing.T) {
	t.Parallel()
	var d Definition[int]
	if _, err := d.Enqueue(t.Context(), newTestClient(t, newSpyStore(t), ClientConfig{}), 1); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if _, err := d.Enqueue(t.Context(), nil, 1); !errors.Is(err, ErrInvalid) {
		t.Errorf("with a nil client: %v", err)
	}
}
