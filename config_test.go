package jobs

import (
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestConfig_ErrorsOfAConfigurationNameTheFieldAndTheRemedy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		field string
		cfg   Config
		says  string
	}{
		{"Concurrency", Config{Concurrency: -1}, "use 1 to"},
		{"Queues", Config{Queues: map[string]int{"a": 0}}, `"a" the weight 0`},
		{"Queues", Config{Queues: map[string]int{"a": -3}}, "weight -3"},
		{"Queues", Config{Queues: map[string]int{"a": 1001}}, "1000"},
		{"Queues", Config{Queues: map[string]int{"a{b}": 1}}, "brace"},
		{"Queues", Config{Queues: map[string]int{"": 1}}, "empty"},
		{"QueueConcurrency", Config{QueueConcurrency: map[string]int{"a": 1}}, "not among Queues"},
		{"QueueConcurrency", Config{Queues: map[string]int{"a": 1}, QueueConcurrency: map[string]int{"a": 0}}, "use 1 or more"},
		{"TypeConcurrency", Config{TypeConcurrency: map[string]int{"a": 0}}, `0 jobs of "a"`},
		{"TypeConcurrency", Config{TypeConcurrency: map[string]int{"a*": -1}}, "use 1 or more"},
		{"TypeConcurrency", Config{TypeConcurrency: map[string]int{"": 1}}, "empty"},
		{"TypeConcurrency", Config{TypeConcurrency: map[string]int{"a:*:b": 1}}, "has a * before its end"},
		{"Lease", Config{Lease: time.Millisecond}, "100ms"},
		{"Lease", Config{Lease: -time.Second}, "100ms"},
		{"Lease", Config{Lease: 50 * 365 * 24 * time.Hour}, "8760h"},
		{"Prefetch", Config{Prefetch: -2}, "NoPrefetch"},
		{"Prefetch", Config{Prefetch: 1001}, "1000"},
		{"Timeout", Config{Timeout: -1}, "30m"},
		{"Timeout", Config{Timeout: 30}, "is 30ns; use 1ms to"},
		{"ErrorHistory", Config{ErrorHistory: -1}, "use 1 to"},
		{"StuckGrace", Config{StuckGrace: -1}, "30s"},
		{"StuckGrace", Config{StuckGrace: 999 * time.Microsecond}, "use 1ms to"},
		{"ReadinessWindow", Config{ReadinessWindow: -1}, "30s"},
		{"ReadinessWindow", Config{ReadinessWindow: 99 * time.Millisecond}, "use 100ms to"},
		{"PollInterval", Config{PollInterval: 5}, "is 5ns; use 1ms to 12h"},
		{"PollInterval", Config{PollInterval: 13 * time.Hour}, "12h"},
		{"ShutdownTimeout", Config{ShutdownTimeout: 20}, "is 20ns; use 1ms or more, 0 for 20s"},
		{"UnknownTypeLimit", Config{UnknownTypeLimit: 999 * time.Microsecond}, "use 1ms or more, 0 for 24h0m0s"},
		{"RetryPolicies", Config{RetryPolicies: map[string]RetryFunc{"a": nil}}, `"a"`},
		{"RetryPolicies", Config{RetryPolicies: map[string]RetryFunc{"": Constant(0)}}, "empty"},
		{"RetryPolicies", Config{RetryPolicies: map[string]RetryFunc{"email:*": Constant(0)}}, "is a pattern"},
	} {
		_, err := NewServer(newStore(), c.cfg)
		var e *broker.Error
		if !errors.As(err, &e) || !errors.Is(err, ErrInvalid) || e.Field != c.field || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: the error is %v; want it to name %s and say %q", c.cfg, err, c.field, c.says)
		}
	}
}

func TestConfig_TheShortestDurationsAreAccepted(t *testing.T) {
	t.Parallel()
	if _, err := NewServer(newStore(), Config{Lease: 100 * time.Millisecond, Timeout: time.Millisecond, StuckGrace: time.Millisecond,
		ReadinessWindow: 100 * time.Millisecond, PollInterval: time.Millisecond, ShutdownTimeout: time.Millisecond,
		UnknownTypeLimit: time.Millisecond}); err != nil {
		t.Error(err)
	}
}

func TestConfig_TheZeroConfigurationHasTheDocumentedDefaults(t *testing.T) {
	t.Parallel()
	cfg, err := Config{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Concurrency < 10 || !maps.Equal(cfg.Queues, map[string]int{"default": 1}) || cfg.ShutdownTimeout != 20*time.Second ||
		cfg.Lease != 15*time.Second || cfg.Timeout != 30*time.Minute || cfg.Prefetch != 1000 || cfg.CrashBudget != 3 ||
		cfg.UnknownTypeLimit != 24*time.Hour || cfg.ErrorHistory != 10 || cfg.StuckGrace != 30*time.Second ||
		cfg.ReadinessWindow != 30*time.Second || cfg.PollInterval != 5*time.Second || cfg.Program == "" {
		t.Errorf("the defaults are %+v", cfg)
	}
	off, err := Config{Prefetch: NoPrefetch, CrashBudget: -1, ShutdownTimeout: -1}.withDefaults()
	if err != nil || off.Prefetch != 0 || off.CrashBudget != 0 || off.ShutdownTimeout != 0 {
		t.Errorf("switched off: %+v, %v", off, err)
	}
}

func TestConfig_ConfigurationComesFromTheEnvironment(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"JOBS_CONCURRENCY": "20", "JOBS_QUEUES": "critical:6, default:3,low", "JOBS_STRICT_PRIORITY": "true",
		"JOBS_QUEUE_CONCURRENCY": "low:2", "JOBS_TYPE_CONCURRENCY": "report:*:2, import:1", "JOBS_LABELS": "gpu, ssd",
		"JOBS_SHUTDOWN_TIMEOUT": "40s", "JOBS_LEASE": "30s", "JOBS_TIMEOUT": "5m",
		"JOBS_PREFETCH": "0", "JOBS_CRASH_BUDGET": "7",
	}
	got, err := configFrom(func(name string) string { return env[name] })
	want := Config{Concurrency: 20, Queues: map[string]int{"critical": 6, "default": 3, "low": 1}, StrictPriority: true,
		QueueConcurrency: map[string]int{"low": 2}, TypeConcurrency: map[string]int{"report:*": 2, "import": 1}, Labels: []string{"gpu", "ssd"},
		ShutdownTimeout: 40 * time.Second, Lease: 30 * time.Second, Timeout: 5 * time.Minute,
		Prefetch: NoPrefetch, CrashBudget: 7}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if got, err := configFrom(func(name string) string {
		if name == "JOBS_CRASH_BUDGET" || name == "JOBS_SHUTDOWN_TIMEOUT" {
			return "0"
		}
		return ""
	}); err != nil || got.CrashBudget >= 0 || got.ShutdownTimeout >= 0 {
		t.Errorf("zeros that mean none became %+v, %v", got, err)
	}
	if got, err := configFrom(func(string) string { return "" }); err != nil || !reflect.DeepEqual(got, Config{}) {
		t.Errorf("without variables: %+v, %v", got, err)
	}
}

func TestConfig_ErrorsOfTheEnvironmentNameTheVariable(t *testing.T) {
	t.Parallel()
	for name, values := range map[string][]string{
		"JOBS_CONCURRENCY":       {"many", "-1", "0", "1.5"},
		"JOBS_QUEUES":            {"a:b", "a:0", "a:1,a:2", "a:1,,b:2", "x{y}:1"},
		"JOBS_STRICT_PRIORITY":   {"perhaps"},
		"JOBS_QUEUE_CONCURRENCY": {"a", "a:0"},
		"JOBS_TYPE_CONCURRENCY":  {"a", "report:*", "a:0", "a:1,a:2", ":1"},
		"JOBS_LABELS":            {"gpu,", "gpu,gpu", "a+b", "a,b,c,d,e"},
		"JOBS_SHUTDOWN_TIMEOUT":  {"30"},
		"JOBS_LEASE":             {"1ms", "x", "0"},
		"JOBS_TIMEOUT":           {"-5s", "0s"},
		"JOBS_PREFETCH":          {"-7", "5000"},
		"JOBS_CRASH_BUDGET":      {"x"},
	} {
		for _, value := range values {
			_, err := configFrom(func(asked string) string {
				if asked == name {
					return value
				}
				return ""
			})
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), name+": ") {
				t.Errorf("%s=%q: the error is %v", name, value, err)
			}
		}
	}
}

// Zero is the default of a field. Of a variable it is "none", or refused.
func TestConfig_ErrorsOfTheEnvironmentNameWhatTheVariableTakes(t *testing.T) {
	t.Parallel()
	for _, test := range [][3]string{
		{"JOBS_CONCURRENCY", "-1", "is -1; use 1 to 100000, or leave it unset for 10 per CPU"},
		{"JOBS_SHUTDOWN_TIMEOUT", "1ns", "is 1ns; use 1ms or more, leave it unset for 20s, or 0 for none"},
		{"JOBS_LEASE", "1ms", "is 1ms; use 100ms to 8760h0m0s, or leave it unset for 15s"},
		{"JOBS_TIMEOUT", "-1s", "is -1s; use 1ms to 876000h0m0s, or leave it unset for 30m0s"},
		{"JOBS_PREFETCH", "5000", "is 5000; use 1 to 1000, leave it unset for 1000, or 0 for none"},
	} {
		_, err := configFrom(func(asked string) string {
			if asked == test[0] {
				return test[1]
			}
			return ""
		})
		if want := "jobs: " + test[0] + ": invalid: " + test[2]; err == nil || err.Error() != want {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
}

func TestConfig_TheBrokersURLIsReturnedAsItIs(t *testing.T) {
	t.Setenv("JOBS_BROKER", "redis://user:secret@host/1")
	t.Setenv("JOBS_CONCURRENCY", "x")
	_, url, err := ConfigFromEnv()
	if url != "redis://user:secret@host/1" {
		t.Errorf("the URL is %q", url)
	}
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("the error is %v", err)
	}
}
