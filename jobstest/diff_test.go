package jobstest_test

import (
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/jobstest"
)

type odd struct {
	At    time.Time
	For   time.Duration
	Addr  netip.Addr
	Sum   *big.Int
	Any   any
	Blob  []byte
	Deep  map[string][]address
	Text  string
	Maybe *int
}

func TestArgs_ComparesEveryKindOfField(t *testing.T) {
	t.Parallel()
	def := jobs.Define[odd]("odd")
	b := jobstest.New(t)
	two := 2
	at := time.Date(2026, 11, 1, 8, 0, 0, 0, time.FixedZone("CET", 3600))
	stored := odd{At: at, For: time.Minute, Addr: netip.MustParseAddr("10.0.0.1"), Sum: big.NewInt(7), Any: []any{1.5, "x"},
		Blob: []byte("blob"),
		Deep: map[string][]address{"home": {{City: "Bern"}}}, Text: strings.Repeat("a", 100) + "b" + strings.Repeat("c", 100), Maybe: &two}
	add(t, b, def, stored)
	same := stored
	same.At = at.UTC()
	jobstest.Enqueued(t, b, def, jobstest.Args(same))

	three := 3
	fake := inTest(t, func(t *fakeT) {
		jobstest.Enqueued(t, b, def, jobstest.Args(odd{At: at.Add(time.Second), For: time.Hour, Addr: netip.MustParseAddr("10.0.0.2"),
			Sum: big.NewInt(8), Any: []any{1.5, "y"}, Blob: []byte("blub"), Deep: map[string][]address{"home": {{City: "Basel"}}},
			Text: strings.Repeat("a", 100) + "B" + strings.Repeat("c", 100), Maybe: &three}))
	})
	if _, message, _ := strings.Cut(fake.text(), "pending\n"); message != ""+
		`       args.At: want 2026-11-01T08:00:01+01:00, got 2026-11-01T08:00:00+01:00
       args.For: want 1h0m0s, got 1m0s
       args.Addr: want 10.0.0.2, got 10.0.0.1
       args.Sum: want 8, got 7
       args.Any[1]: want "y", got "x"
       args.Blob: want "blub", got "blob"
       args.Deep["home"][0].City: want "Basel", got "Bern"
       args.Text: want …aaaaaaaaaaaaaaaaaaaaB`+strings.Repeat("c", 56)+`…, got …aaaaaaaaaaaaaaaaaaaab`+strings.Repeat("c", 56)+`…
       and 1 difference more` {
		t.Errorf("the message is\n%s", fake.text())
	}
}

func TestLike_ComparesOnlyWhatIsGiven(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	add(t, b, welcomeMail, welcome{To: "ada@x", Name: "Ada", Address: &address{City: "Bern", Street: "Gasse 1"}, Tags: []string{"a", "b"},
		Vars: map[string]string{"plan": "free", "lang": "de"}})
	for _, like := range []welcome{
		{}, {Name: "Ada"}, {Address: &address{City: "Bern"}}, {Vars: map[string]string{"lang": "de"}}, {Tags: []string{"a", "b"}},
	} {
		jobstest.Enqueued(t, b, welcomeMail, jobstest.Like(like))
	}
	for _, unlike := range []welcome{
		{Name: "Eve"}, {Address: &address{Street: "Gasse 2"}}, {Vars: map[string]string{"lang": "fr"}}, {Vars: map[string]string{"size": "L"}},
		{Tags: []string{"a"}},
	} {
		jobstest.NotEnqueued(t, b, welcomeMail, jobstest.Like(unlike))
	}
}
