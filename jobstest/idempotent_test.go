package jobstest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/jobstest"
)

// bank is what a handler changes.
type bank struct {
	Balance map[string]int
	Booked  []string
	applied map[string]bool
}

func newBank() *bank {
	return &bank{Balance: map[string]int{"ada": 100}, applied: make(map[string]bool)}
}

// book adds to an account, once for each key.
func (b *bank) book(key, account string, amount int) {
	if key != "" && b.applied[key] {
		return
	}
	b.applied[key] = true
	b.Balance[account] += amount
	b.Booked = append(b.Booked, account)
}

func TestCheckIdempotent_AHandlerThatIsPasses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		money := newBank()
		runs := 0
		h := goodbyeMail.Handler(func(ctx context.Context, g goodbye, job *jobs.Job) error {
			runs++
			for _, step := range []string{"withdraw", "deposit"} {
				if _, err := jobs.Step(ctx, job, step, func(context.Context) (int, error) {
					money.book(job.ID()+step, g.To, 10)
					return 1, nil
				}); err != nil {
					return err
				}
			}
			return nil
		})
		jobstest.CheckIdempotent(t, h, goodbyeMail, goodbye{To: "ada"}, func() any { return money })
		if runs != 4 || money.Balance["ada"] != 120 {
			t.Errorf("%d runs, want 4: the first, one with nothing, one after each of two steps; balance %v", runs, money.Balance)
		}
	})
}

func TestCheckIdempotent_ShowsWhatWasDoneTwice(t *testing.T) {
	t.Parallel()
	fake := inTest(t, func(t *fakeT) {
		money := newBank()
		h := goodbyeMail.Handler(func(_ context.Context, g goodbye, _ *jobs.Job) error {
			money.book("", g.To, 10)
			return nil
		})
		jobstest.CheckIdempotent(t, h, goodbyeMail, goodbye{To: "ada"}, func() any { return money })
	})
	fake.wantText(t, `
the handler of "email:goodbye" is not idempotent: delivered again with nothing stored, it changed its effects:
  effects.Balance["ada"]: was 110, is 120
  effects.Booked: was 1 element, is 2 elements
  effects.Booked[1]: "ada" is new`)
}

func TestCheckIdempotent_FindsWhatOnlyARestInTheMiddleShows(t *testing.T) {
	t.Parallel()
	fake := inTest(t, func(t *fakeT) {
		money := newBank()
		h := goodbyeMail.Handler(func(ctx context.Context, g goodbye, job *jobs.Job) error {
			if len(job.Checkpoint()) > 0 { // it repeats an effect after a checkpoint
				money.book("", g.To, 1)
			}
			money.book(job.ID(), g.To, 10)
			return job.SetCheckpoint(ctx, []byte("half"))
		})
		jobstest.CheckIdempotent(t, h, goodbyeMail, goodbye{To: "ada"}, func() any { return money.Balance })
	})
	fake.wantText(t, `
the handler of "email:goodbye" is not idempotent: delivered again with the first 1 of 1 things that it had stored, it changed its effects:
  effects["ada"]: was 110, is 111`)
}

func TestCheckIdempotent_ARunThatFailsIsToldAsThat(t *testing.T) {
	t.Parallel()
	fake := inTest(t, func(t *fakeT) {
		done := false
		h := goodbyeMail.Handler(func(context.Context, goodbye, *jobs.Job) error {
			if done {
				return fmt.Errorf("%w: already there", jobs.SkipRetry)
			}
			done = true
			return nil
		})
		jobstest.CheckIdempotent(t, h, goodbyeMail, goodbye{}, func() any { return done })
	})
	fake.wantText(t,
		`the handler of "email:goodbye" is not idempotent: delivered again with nothing stored, its job was dead: …already there`)

	fake = inTest(t, func(t *fakeT) {
		h := goodbyeMail.Handler(func(context.Context, goodbye, *jobs.Job) error { return errors.New("down") })
		jobstest.CheckIdempotent(t, h, goodbyeMail, goodbye{}, func() any { return nil })
	})
	fake.wantText(t, `the first run of "email:goodbye" has to complete its job, but it was retried in …: down`)
}

// person is a value with pointers back.
type person struct {
	Name    string
	Friends []*person
	Boss    *person
}

func TestCheckIdempotent_EffectsMayHavePointersBack(t *testing.T) {
	t.Parallel()
	ada, bob := &person{Name: "ada"}, &person{Name: "bob"}
	ada.Friends, ada.Boss = []*person{bob}, ada
	bob.Friends, bob.Boss = []*person{ada}, ada
	all := map[string]any{"ada": ada, "bob": bob}
	all["all"] = all
	runs := 0
	h := goodbyeMail.Handler(func(context.Context, goodbye, *jobs.Job) error {
		if runs++; runs > 1 {
			bob.Name = "rob"
		}
		return nil
	})
	fake := inTest(t, func(t *fakeT) {
		jobstest.CheckIdempotent(t, h, goodbyeMail, goodbye{To: "ada"}, func() any { return all })
	})
	fake.wantText(t, `
the handler of "email:goodbye" is not idempotent: delivered again with nothing stored, it changed its effects:
  effects["ada"].Friends[0].Name: was "bob", is "rob"
  effects["bob"].Name: was "bob", is "rob"`)
}

func TestCheckIdempotent_EffectsWithoutEndAreRefused(t *testing.T) {
	t.Parallel()
	town := make([]*person, 20)
	for i := range town {
		town[i] = &person{Name: fmt.Sprint(i)}
	}
	for _, p := range town { // everybody knows everybody
		p.Friends = slices.Clone(town)
	}
	h := goodbyeMail.Handler(func(context.Context, goodbye, *jobs.Job) error { return nil })
	fake := inTest(t, func(t *fakeT) {
		jobstest.CheckIdempotent(t, h, goodbyeMail, goodbye{To: "ada"}, func() any { return town[0] })
	})
	if !strings.Contains(fake.text(), "more than 100000 values") {
		t.Errorf("the message is %q", fake.text())
	}
}
