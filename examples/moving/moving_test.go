package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/jobstest"
)

// sent returns an App that records what it sends. User 2 does not exist.
func sent() (*App, *[]string) {
	var texts []string
	return &App{Send: func(_ context.Context, userID int, text string) error {
		if userID == 2 {
			return errNoUser
		}
		texts = append(texts, fmt.Sprint(userID, " ", text))
		return nil
	}}, &texts
}

func TestSignUp_IsFollowedByAWelcomeAndAReminder(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	for _, userID := range []int{1, 2, 1} { // 1 presses the button twice
		if err := SignUp(t.Context(), b.Client(), userID); err != nil {
			t.Fatal(err)
		}
	}
	app, texts := sent()
	cfg := jobstest.Config(Config(b.Client()))
	now := jobstest.Drain(t, b, app.Handlers(), cfg)
	if want := []string{"1 welcome"}; !slices.Equal(*texts, want) || now.Dead != 1 {
		t.Errorf("sent at once: %q, with %d dead; want %q, and one dead", *texts, now.Dead, want)
	}
	*texts = nil
	jobstest.Drain(t, b, app.Handlers(), cfg, jobstest.Ahead(24*time.Hour))
	reminders, reports := 0, 0
	for _, text := range *texts {
		if text == "1 remember us" {
			reminders++
		}
		if strings.HasPrefix(text, "0 report of nightly-report@") {
			reports++
		}
	}
	if reminders != 2 || reports != 1 || len(*texts) != 3 {
		t.Errorf("sent within a day: %q, want two reminders and the report", *texts)
	}
}

func TestRun_WorksUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	app, _ := sent()
	stop()
	if err := run(ctx, "file:"+filepath.Join(t.TempDir(), "jobs.db"), app); err != nil {
		t.Error(err)
	}
	if err := run(ctx, "nothing://", app); err == nil {
		t.Error("it runs without a store")
	}
}
