package jobs

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/parked"
)

// described is the job that options make of a task, without its ID.
func described(t *testing.T, c *Client, task *Task, call ...Option) broker.NewJob {
	t.Helper()
	var o Outgoing
	if err := o.fill(c, task, call); err != nil {
		t.Fatalf("fill: %v", err)
	}
	if err := o.config.complete(&o.NewJob); err != nil {
		t.Fatalf("complete: %v", err)
	}
	if !o.Body.GivenID {
		o.ID = ""
	}
	return o.NewJob
}

func TestOptions_EachOptionSetsItsFieldAndNothingElse(t *testing.T) {
	t.Parallel()
	at := time.Date(2040, 5, 1, 12, 0, 0, 0, time.UTC)
	backoff := Backoff{Kind: BackoffLinear, Base: time.Second, Max: time.Minute}
	for name, test := range map[string]struct {
		option Option
		change func(*broker.NewJob)
	}{
		"none":              {nil, func(*broker.NewJob) {}},
		"WithQueue":         {WithQueue("q"), func(j *broker.NewJob) { j.Queue = "q" }},
		"WithPriority":      {WithPriority(PriorityUrgent), func(j *broker.NewJob) { j.Body.Priority = 1 }},
		"WithPriority zero": {WithPriority(0), func(j *broker.NewJob) {}},
		"WithDelay":         {WithDelay(time.Hour), func(j *broker.NewJob) { j.Delay, j.Body.DueAfter = time.Hour, time.Hour }},
		"WithRunAt":         {WithRunAt(at), func(j *broker.NewJob) { j.RunAt, j.Body.DueAfter = at, time.Until(at) }},
		"WithDeadline":      {WithDeadline(at), func(j *broker.NewJob) { j.Body.Deadline = at }},
		"WithTimeout":       {WithTimeout(time.Second), func(j *broker.NewJob) { j.Body.Timeout = time.Second }},
		"WithMaxRetries":    {WithMaxRetries(0), func(j *broker.NewJob) { j.Body.MaxRetries = 0 }},
		"WithBackoff":       {WithBackoff(backoff), func(j *broker.NewJob) { j.Body.Backoff = backoff }},
		"WithCrashBudget":   {WithCrashBudget(7), func(j *broker.NewJob) { j.Body.CrashBudget = 7 }},
		"WithRetention":     {WithRetention(time.Hour), func(j *broker.NewJob) { j.Body.Retention = time.Hour }},
		"WithID":            {WithID("id"), func(j *broker.NewJob) { j.ID, j.Body.GivenID = "id", true }},
		"WithPartitionKey":  {WithPartitionKey("tenant"), func(j *broker.NewJob) { j.Body.Key = "tenant" }},
		"WithHeader":        {WithHeader("a", "\x00"), func(j *broker.NewJob) { j.Body.Headers = map[string]string{"a": "\x00"} }},
		"WithHeaders": {WithHeaders(map[string]string{"a": "1"}),
			func(j *broker.NewJob) { j.Body.Headers = map[string]string{"a": "1"} }},
		"WithCorrelationID":   {WithCorrelationID("c"), func(j *broker.NewJob) { j.Body.CorrelationID = "c" }},
		"WithIdempotencyKey":  {WithIdempotencyKey("i"), func(j *broker.NewJob) { j.Body.IdempotencyKey = "i" }},
		"WithTypeVersion":     {WithTypeVersion(3), func(j *broker.NewJob) { j.Body.TypeVersion = 3 }},
		"WithSource":          {WithSource("s"), func(j *broker.NewJob) { j.Body.Source = "s" }},
		"WithPayloadRef":      {WithPayloadRef("s3://x"), func(j *broker.NewJob) { j.Body.PayloadRef = "s3://x" }},
		"WithUniqueKey":       {WithUniqueKey("k"), func(j *broker.NewJob) { j.Body.Unique.Key = "k" }},
		"WithoutUnique alone": {WithoutUnique(), func(*broker.NewJob) {}},
	} {
		t.Run(name, func(t *testing.T) {
			want := broker.NewJob{Queue: "default", Body: broker.Body{
				Type: "mail", Payload: []byte("p"), MaxRetries: 25, Priority: PriorityNormal}}
			test.change(&want)
			got := described(t, NewClient(nil, ClientConfig{}), NewTask("mail", []byte("p")), test.option)
			if got.FirstSend == want.Body.GivenID {
				t.Errorf("FirstSend is %v with a given ID: %v", got.FirstSend, want.Body.GivenID)
			}
			got.FirstSend = false
			if d := want.Body.DueAfter - got.Body.DueAfter; d.Abs() < time.Hour { // by the clock
				got.Body.DueAfter = want.Body.DueAfter
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestOptions_OfTheCallWinOverTheTasksAndThoseOverTheClients(t *testing.T) {
	t.Parallel()
	c := NewClient(nil, ClientConfig{Defaults: []Option{WithQueue("client"), WithSource("client"), WithPartitionKey("client"),
		WithHeader("h", "client")}})
	task := NewTask("mail", nil, WithQueue("task"), WithSource("task"), WithHeader("h", "task"))
	got := described(t, c, task, WithQueue("call"), nil, WithHeader("g", "call"))
	if got.Queue != "call" || got.Body.Source != "task" || got.Body.Key != "client" {
		t.Errorf("queue, source, key are %q, %q, %q; want call, task, client", got.Queue, got.Body.Source, got.Body.Key)
	}
	if want := map[string]string{"h": "task", "g": "call"}; !reflect.DeepEqual(got.Body.Headers, want) {
		t.Errorf("headers are %v, want %v", got.Body.Headers, want)
	}
}

func TestOptions_DelayAndRunAtReplaceEachOther(t *testing.T) {
	t.Parallel()
	c, at := NewClient(nil, ClientConfig{}), time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
	if got := described(t, c, NewTask("mail", nil), WithDelay(time.Hour), WithRunAt(at)); got.Delay != 0 || !got.RunAt.Equal(at) {
		t.Errorf("RunAt last: delay %v, run at %v", got.Delay, got.RunAt)
	}
	if got := described(t, c, NewTask("mail", nil), WithRunAt(at), WithDelay(time.Hour)); got.Delay != time.Hour || !got.RunAt.IsZero() {
		t.Errorf("Delay last: delay %v, run at %v", got.Delay, got.RunAt)
	}
}

func TestOptions_ATimeInThePastMeansAtOnceHoweverFar(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, newSpyStore(t), ClientConfig{})
	zone := time.FixedZone("", -12*60*60)
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Unix(0, 1).In(zone), time.Date(1969, 7, 20, 0, 0, 0, 0, time.UTC),
		time.Date(-300, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(1, 0), time.Now().Add(-time.Second)} {
		info, err := c.Enqueue(t.Context(), NewTask("mail", nil), WithRunAt(at))
		if err != nil || info.State != StatePending {
			t.Errorf("run at %v: %+v, %v; want it pending", at, info, err)
		}
	}
}

func TestOptions_AJobThatIsDueAtItsDeadlineIsRefused(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, newSpyStore(t), ClientConfig{})
	now := time.Now()
	hour, two := now.Add(time.Hour), now.Add(2*time.Hour)
	for name, test := range map[string]struct {
		options []Option
		want    bool
	}{
		"a delay beyond":          {[]Option{WithDelay(2 * time.Hour), WithDeadline(hour)}, false},
		"a time beyond":           {[]Option{WithRunAt(two), WithDeadline(hour)}, false},
		"a time at the deadline":  {[]Option{WithDeadline(hour), WithRunAt(hour)}, false},
		"a delay before":          {[]Option{WithDelay(time.Hour), WithDeadline(two)}, true},
		"a time before":           {[]Option{WithRunAt(hour), WithDeadline(two)}, true},
		"no deadline":             {[]Option{WithDelay(time.Hour), WithDeadline(time.Time{})}, true},
		"at once, and it is late": {[]Option{WithDeadline(now.Add(-time.Hour))}, true},
		"a time that has passed":  {[]Option{WithRunAt(now.Add(-time.Hour)), WithDeadline(now.Add(-2 * time.Hour))}, true},
		"a node of a workflow":    {[]Option{WithRunAt(parked.Until), WithDeadline(hour)}, true},
	} {
		_, err := c.Enqueue(t.Context(), NewTask("mail", nil), test.options...)
		if test.want != (err == nil) || err != nil && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "deadline: ")) {
			t.Errorf("%s: %v; want it accepted: %v, otherwise ErrInvalid of the deadline", name, err, test.want)
		}
	}
}

func TestOptions_ADebounceSetsTheDelayUnlessALaterOptionEndsIt(t *testing.T) {
	t.Parallel()
	key, debounce := WithUniqueKey("k"), WithUniqueDebounce(time.Minute, time.Hour)
	for name, test := range map[string]struct {
		options []Option
		want    time.Duration
	}{
		"a delay before":       {[]Option{key, WithDelay(time.Second), debounce}, time.Minute},
		"a delay after":        {[]Option{key, debounce, WithDelay(0)}, time.Minute},
		"a time after":         {[]Option{key, debounce, WithRunAt(time.Now().Add(time.Hour))}, time.Minute},
		"another one after":    {[]Option{key, debounce, WithUniqueDebounce(2*time.Minute, time.Hour)}, 2 * time.Minute},
		"without uniqueness":   {[]Option{key, debounce, WithoutUnique()}, 0},
		"replace":              {[]Option{key, debounce, WithUniqueReplace()}, 0},
		"keep last":            {[]Option{key, WithDelay(time.Second), debounce, WithUniqueKeepLast()}, time.Second},
		"undone and done anew": {[]Option{key, debounce, WithoutUnique(), key, debounce}, time.Minute},
	} {
		got, err := NewTask("mail", nil).Draft(test.options...)
		if err != nil || got.Delay != test.want || !got.RunAt.IsZero() || got.Body.DueAfter != test.want {
			t.Errorf("%s: delay %v, run at %v, due after %v, %v; want %v", name, got.Delay, got.RunAt, got.Body.DueAfter, err, test.want)
		}
	}
}

func TestOptions_HeadersOfOneJobAreNotThoseOfAnother(t *testing.T) {
	t.Parallel()
	shared := map[string]string{"a": "1"}
	c := NewClient(nil, ClientConfig{Defaults: []Option{WithHeaders(shared), WithHeader("b", "2")}})
	first := described(t, c, NewTask("mail", nil), WithHeader("a", "changed"))
	second := described(t, c, NewTask("mail", nil))
	if len(shared) != 1 || shared["a"] != "1" {
		t.Errorf("the caller's map became %v", shared)
	}
	if first.Body.Headers["a"] != "changed" || second.Body.Headers["a"] != "1" {
		t.Errorf("headers are %v and %v, want them apart", first.Body.Headers, second.Body.Headers)
	}
}

func TestOptions_WithoutHeadersDropsThoseBefore(t *testing.T) {
	t.Parallel()
	c := NewClient(nil, ClientConfig{Defaults: []Option{WithHeader("tenant", "x")}})
	got := described(t, c, NewTask("mail", nil, WithHeaders(map[string]string{"a": "1"})), WithoutHeaders(), WithHeader("b", "2"))
	if want := map[string]string{"b": "2"}; !reflect.DeepEqual(got.Body.Headers, want) {
		t.Errorf("headers are %v, want %v", got.Body.Headers, want)
	}
}

func TestOptions_UniqueOptionsCombine(t *testing.T) {
	t.Parallel()
	c := NewClient(nil, ClientConfig{})
	content := contentKey("mail", []byte("p"))
	if digits := strings.TrimPrefix(content, DerivedKeyPrefix); len(digits) != 64 || len(content) != 64+len("sha256:") ||
		strings.ToLower(content) != content {
		t.Fatalf("the derived key is %q, want sha256: and 64 hexadecimal digits", content)
	}
	for name, test := range map[string]struct {
		options []Option
		want    broker.Unique
	}{
		"until done":            {[]Option{WithUniqueUntilDone(time.Hour)}, broker.Unique{Key: content, TTL: time.Hour}},
		"until done, unbounded": {[]Option{WithUniqueUntilDone(0)}, broker.Unique{Key: content}},
		"until started": {[]Option{WithUniqueUntilStarted(time.Hour)},
			broker.Unique{Key: content, Mode: broker.UniqueUntilStarted, TTL: time.Hour}},
		"until started, unbounded": {[]Option{WithUniqueUntilStarted(0)}, broker.Unique{Key: content, Mode: broker.UniqueUntilStarted}},
		"key alone is unbounded":   {[]Option{WithUniqueKey("k")}, broker.Unique{Key: "k"}},
		"key and until done":       {[]Option{WithUniqueUntilDone(time.Hour), WithUniqueKey("k")}, broker.Unique{Key: "k", TTL: time.Hour}},
		"window": {[]Option{WithUniqueWindow(time.Hour)},
			broker.Unique{Key: content, Mode: broker.UniqueWindow, TTL: time.Hour}},
		"key and window": {[]Option{WithUniqueKey("k"), WithUniqueWindow(time.Hour)},
			broker.Unique{Key: "k", Mode: broker.UniqueWindow, TTL: time.Hour}},
		"without drops what was before": {[]Option{WithUniqueWindow(time.Hour), WithUniqueKey("k"), WithoutUnique()}, broker.Unique{}},
		"what comes after without": {[]Option{WithUniqueKey("k"), WithoutUnique(), WithUniqueUntilDone(time.Hour)},
			broker.Unique{Key: content, TTL: time.Hour}},
		"replace": {[]Option{WithUniqueKey("k"), WithUniqueReplace()},
			broker.Unique{Key: "k", Conflict: broker.ConflictReplace}},
		"replace until started": {[]Option{WithUniqueReplace(), WithUniqueUntilStarted(0), WithUniqueKey("k")},
			broker.Unique{Key: "k", Mode: broker.UniqueUntilStarted, Conflict: broker.ConflictReplace}},
		"debounce": {[]Option{WithUniqueKey("k"), WithUniqueDebounce(time.Second, time.Minute)},
			broker.Unique{Key: "k", Conflict: broker.ConflictDebounce, Latest: time.Minute}},
		"keep last after a debounce": {[]Option{WithUniqueKey("k"), WithUniqueDebounce(time.Second, time.Minute), WithUniqueKeepLast()},
			broker.Unique{Key: "k", Conflict: broker.ConflictKeepLast}},
		"without drops the conflict": {[]Option{WithUniqueKey("k"), WithUniqueReplace(), WithoutUnique()}, broker.Unique{}},
		"the last wins":              {[]Option{WithUniqueWindow(time.Minute), WithUniqueUntilDone(0)}, broker.Unique{Key: content}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := described(t, c, NewTask("mail", []byte("p")), test.options...).Body.Unique; got != test.want {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

func TestOptions_DerivedKeysTellTypeAndPayloadApart(t *testing.T) {
	t.Parallel()
	if contentKey("ab", []byte("c")) == contentKey("a", []byte("bc")) {
		t.Error("the type ab with payload c and the type a with payload bc have the same key")
	}
	if contentKey("a", nil) != contentKey("a", []byte{}) {
		t.Error("a nil payload and an empty one have different keys")
	}
}

// TestOptions_BadInputIsRefusedByName enqueues one thing wrong at a time.
func TestOptions_BadInputIsRefusedByName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	task := NewTask("mail", nil)
	keyed, windowed := NewTask("mail", nil, WithUniqueKey("k")), NewTask("mail", nil, WithUniqueKey("k"), WithUniqueWindow(time.Hour))
	manyHeaders := make(map[string]string)
	for i := range 65 {
		manyHeaders[strings.Repeat("h", i+1)] = ""
	}
	for name, test := range map[string]struct {
		task   *Task
		option Option
		is     error
		words  string // field, limit and remedy
	}{
		"nil task":          {nil, nil, ErrInvalid, "task: invalid: is nil; make one with NewTask"},
		"zero task":         {new(Task), nil, ErrInvalid, "type: invalid: is empty; give it 1 to 255 bytes"},
		"long type":         {NewTask(long, nil), nil, ErrInvalid, "type: invalid: has 256 bytes, the limit is 255; shorten"},
		"type not UTF-8":    {NewTask("\xff", nil), nil, ErrInvalid, "type: invalid: is not valid UTF-8; encode it"},
		"type with control": {NewTask("a\nb", nil), nil, ErrInvalid, "type: invalid: contains a control character; remove it"},
		"payload over 1 MiB": {NewTask("mail", make([]byte, 1<<20+1)), nil, ErrTooLarge,
			"payload: too large: 1048577 bytes, the limit is 1048576; store it elsewhere"},
		"empty queue":      {task, WithQueue(""), ErrInvalid, "queue: invalid: is empty; give it"},
		"queue with brace": {task, WithQueue("a{b"), ErrInvalid, "choose another character"},
		"empty ID":         {task, WithID(""), ErrInvalid, "id: invalid: is empty; give it"},
		"long ID":          {task, WithID(long), ErrInvalid, "id: invalid: has 256 bytes"},
		"negative delay":   {task, WithDelay(-1), ErrInvalid, "delay: invalid: is negative (-1ns); use zero or more"},
		"endless delay": {task, WithDelay(200 * 365 * 24 * time.Hour), ErrInvalid,
			"delay: invalid: is 1752000h0m0s, the limit is"},
		"run at in 2200": {task, WithRunAt(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)), ErrInvalid,
			"run at: invalid: is 2200-01-01T00:00:00Z; use a time after the first instant of 1970, up to the year 2199"},
		"run at in 10000": {task, WithRunAt(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)), ErrInvalid,
			"run at: invalid: is 10000-01-01T00:00:00Z"},
		"deadline in 2200": {task, WithDeadline(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)), ErrInvalid,
			"deadline: invalid: is 2200-01-01T00:00:00Z"},
		"deadline in 1969": {task, WithDeadline(time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC)), ErrInvalid,
			"deadline: invalid: is 1969-01-01T00:00:00Z"},
		"timeout without unit":  {task, WithTimeout(30), ErrInvalid, "timeout: invalid: is 30ns; use 1ms or more, or 0 for the server's"},
		"negative timeout":      {task, WithTimeout(-time.Second), ErrInvalid, "timeout: invalid: is negative (-1s); use zero or more"},
		"negative retention":    {task, WithRetention(-time.Second), ErrInvalid, "retention: invalid: is negative"},
		"negative retries":      {task, WithMaxRetries(-1), ErrInvalid, "max retries: invalid: is -1; use 0 to 1000000"},
		"negative crash budget": {task, WithCrashBudget(-1), ErrInvalid, "crash budget: invalid: is -1; use 0"},
		"priority 5":            {task, WithPriority(5), ErrInvalid, "priority: invalid: is 5; use 1 (first) to 4 (last)"},
		"negative version":      {task, WithTypeVersion(-1), ErrInvalid, "type version: invalid: is -1; use zero or more"},
		"long key":              {task, WithPartitionKey(long), ErrInvalid, "key: invalid: has 256 bytes"},
		"long correlation ID":   {task, WithCorrelationID(long), ErrInvalid, "correlation id: invalid: has 256 bytes"},
		"long idempotency key":  {task, WithIdempotencyKey(long), ErrInvalid, "idempotency key: invalid: has 256 bytes"},
		"long source":           {task, WithSource(long), ErrInvalid, "source: invalid: has 256 bytes"},
		"payload ref over 64 KiB": {task, WithPayloadRef(strings.Repeat("x", 64<<10+1)), ErrTooLarge,
			"payload ref: too large: 65537 bytes, the limit is 65536; shorten it"},
		"65 headers": {task, WithHeaders(manyHeaders), ErrTooLarge,
			"headers: too large: 65 headers, the limit is 64; drop some"},
		"header over 64 KiB": {task, WithHeader("a", strings.Repeat("x", 64<<10)), ErrTooLarge,
			"headers: too large: 65537 bytes, the limit is 65536"},
		"header without key": {task, WithHeader("", "x"), ErrInvalid, "headers: invalid: has an empty key; name it"},
		"backoff without base": {task, WithBackoff(Backoff{Kind: BackoffLinear}), ErrInvalid,
			"backoff base: invalid: is 0s; use more than zero"},
		"backoff without kind": {task, WithBackoff(Backoff{Base: time.Second}), ErrInvalid,
			"backoff kind: invalid: is not set, although a base or a max is; use BackoffExponential"},
		"unknown backoff":  {task, WithBackoff(Backoff{Kind: 9, Base: 1}), ErrInvalid, "backoff kind: invalid: 9 is unknown"},
		"unique for less":  {task, WithUniqueUntilDone(-time.Second), ErrInvalid, "unique ttl: invalid: is negative"},
		"empty unique key": {task, WithUniqueKey(""), ErrInvalid, "unique key: invalid: is empty; give it 1 to 255 bytes"},
		"long unique key":  {task, WithUniqueKey(long), ErrInvalid, "unique key: invalid: has 256 bytes"},
		"replace without a key": {task, WithUniqueReplace(), ErrInvalid,
			"unique key: invalid: is derived from the payload, so a job with another payload has another key; add WithUniqueKey"},
		"keep last, no key": {task, WithUniqueKeepLast(), ErrInvalid, "unique key: invalid: is derived"},
		"debounce of nothing": {keyed, WithUniqueDebounce(0, time.Minute), ErrInvalid,
			"unique quiet: invalid: is 0s; use 1ms or more"},
		"debounce without unit":  {keyed, WithUniqueDebounce(5, time.Minute), ErrInvalid, "unique quiet: invalid: is 5ns; use 1ms or more"},
		"retention without unit": {task, WithRetention(3600), ErrInvalid, "retention: invalid: is 3.6µs; use 1ms or more, or 0"},
		"unique without unit":    {task, WithUniqueUntilDone(60), ErrInvalid, "unique ttl: invalid: is 60ns; use 1ms or more"},
		"window without unit":    {task, WithUniqueWindow(60), ErrInvalid, "unique ttl: invalid: is 60ns; use 1ms or more"},
		"debounce without latest": {keyed, WithUniqueDebounce(time.Second, 0), ErrInvalid,
			"unique latest: invalid: is zero; debounce needs the longest time that a job waits"},
		"debounce longer than its latest": {keyed, WithUniqueDebounce(time.Minute, time.Second), ErrInvalid,
			"unique latest: invalid: is 1s, less than the delay of 1m0s; make it longer"},
		"endless latest": {keyed, WithUniqueDebounce(time.Second, 200*365*24*time.Hour), ErrInvalid,
			"unique latest: invalid: is 1752000h0m0s, the limit is"},
		"debounce in a window": {windowed, WithUniqueDebounce(time.Second, time.Minute), ErrInvalid,
			"unique mode: invalid: is a window; debounce needs until done or until started"},
		"keep last in a window": {windowed, WithUniqueKeepLast(), ErrInvalid,
			"unique mode: invalid: is not until done; keep last needs that mode"},
		"unique window, no length": {task, WithUniqueWindow(0), ErrInvalid,
			"unique ttl: invalid: is zero; a unique window needs a length"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newSpyStore(t)
			info, err := newTestClient(t, store, ClientConfig{}).Enqueue(t.Context(), test.task, test.option)
			if info != nil || !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.words) {
				t.Errorf("Enqueue answered %v and %v;\nwant no info and %v with the words %q", info, err, test.is, test.words)
			}
			if broker.MayHaveApplied(err) || errors.Is(err, ErrOutcomeUnknown) {
				t.Errorf("the refusal does not say that nothing was stored: %v", err)
			}
			if calls := store.sizes(); calls != nil {
				t.Errorf("the store was asked, with %v jobs", calls)
			}
		})
	}
}
