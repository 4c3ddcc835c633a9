package jobs

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// ConfigFromEnv reads the configuration of a server from the environment. Unset and
// empty variables leave their field zero, which means its default:
//
//	JOBS_BROKER             the broker's URL, returned unchanged; see backends.Open
//	JOBS_CONCURRENCY        Concurrency: 20
//	JOBS_QUEUES             Queues: critical:6,default:3,low (the weight defaults to 1)
//	JOBS_STRICT_PRIORITY    StrictPriority: true or false
//	JOBS_QUEUE_CONCURRENCY  QueueConcurrency: reports:2
//	JOBS_TYPE_CONCURRENCY   TypeConcurrency: report:*:2,import:1 (the number follows the last colon)
//	JOBS_LABELS             Labels: gpu,ssd
//	JOBS_SHUTDOWN_TIMEOUT   ShutdownTimeout: 20s; 0 ends contexts at once
//	JOBS_LEASE              Lease: 15s
//	JOBS_TIMEOUT            Timeout: 30m
//	JOBS_PREFETCH           Prefetch: 1000; 0 switches it off
//	JOBS_CRASH_BUDGET       CrashBudget: 3; 0 means none
//
// Errors name the variable. They never contain the broker's URL.
func ConfigFromEnv() (cfg Config, brokerURL string, err error) {
	cfg, err = configFrom(os.Getenv)
	return cfg, os.Getenv("JOBS_BROKER"), err
}

func configFrom(getenv func(string) string) (Config, error) {
	var cfg Config
	for _, v := range []struct {
		name  string
		parse func(string) error
	}{
		{"JOBS_CONCURRENCY", noZero(&cfg.Concurrency, number(&cfg.Concurrency))},
		{"JOBS_QUEUES", func(text string) (err error) {
			cfg.Queues, err = numbersByName(text, 1)
			return err
		}},
		{"JOBS_STRICT_PRIORITY", func(text string) (err error) {
			if cfg.StrictPriority, err = strconv.ParseBool(text); err != nil {
				return broker.Invalid("", "%q is neither true nor false", text)
			}
			return nil
		}},
		{"JOBS_QUEUE_CONCURRENCY", func(text string) (err error) {
			cfg.QueueConcurrency, err = numbersByName(text, 0)
			return err
		}},
		{"JOBS_TYPE_CONCURRENCY", func(text string) (err error) {
			cfg.TypeConcurrency, err = numbersByName(text, 0)
			return err
		}},
		{"JOBS_LABELS", func(text string) error {
			for label := range strings.SplitSeq(text, ",") {
				cfg.Labels = append(cfg.Labels, strings.TrimSpace(label))
			}
			return nil
		}},
		{"JOBS_SHUTDOWN_TIMEOUT", zeroIsNone(&cfg.ShutdownTimeout, duration(&cfg.ShutdownTimeout))},
		{"JOBS_LEASE", noZero(&cfg.Lease, duration(&cfg.Lease))},
		{"JOBS_TIMEOUT", noZero(&cfg.Timeout, duration(&cfg.Timeout))},
		{"JOBS_PREFETCH", zeroIsNone(&cfg.Prefetch, number(&cfg.Prefetch))},
		{"JOBS_CRASH_BUDGET", zeroIsNone(&cfg.CrashBudget, number(&cfg.CrashBudget))},
	} {
		text := strings.TrimSpace(getenv(v.name))
		if text == "" {
			continue
		}
		if err := v.parse(text); err != nil {
			return Config{}, forVariable(v.name, err)
		}
		if err := cfg.check(); err != nil {
			return Config{}, forVariable(v.name, err)
		}
	}
	return cfg, nil
}

// forVariable replaces the field's name in an error with the variable's, and what the field
// takes for its default and for none with what the variable takes.
func forVariable(variable string, err error) error {
	if e, ok := err.(*broker.Error); ok {
		return broker.Invalid(variable, "%s", ofVariable.Replace(e.Hint))
	}
	return broker.Invalid(variable, "%v", err)
}

var ofVariable = strings.NewReplacer("or 0 for ", "or leave it unset for ", ", 0 for ", ", leave it unset for ",
	"or NoPrefetch", "or 0 for none", "or a negative value for none", "or 0 for none")

// noZero refuses 0 for a field in which zero means the default and no value means
// "none".
func noZero[T int | time.Duration](field *T, parse func(string) error) func(string) error {
	return func(text string) error {
		err := parse(text)
		if err == nil && *field == 0 {
			return broker.Invalid("", "is 0, so nothing could run; use a larger value, or leave it unset for the default")
		}
		return err
	}
}

// zeroIsNone reads 0 as "none", which the field stores as a negative value.
func zeroIsNone[T int | time.Duration](field *T, parse func(string) error) func(string) error {
	return func(text string) error {
		err := parse(text)
		if err == nil && *field == 0 {
			*field = -1
		}
		return err
	}
}

func number(field *int) func(string) error {
	return func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil {
			return broker.Invalid("", "%q is not a whole number", text)
		}
		*field = n
		return nil
	}
}

func duration(field *time.Duration) func(string) error {
	return func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil {
			return broker.Invalid("", "%q is not a duration; write 30s or 5m", text)
		}
		*field = d
		return nil
	}
}

// numbersByName reads name:number,name:number. A name without a number gets def,
// or is refused if def is 0.
func numbersByName(text string, def int) (map[string]int, error) {
	m := make(map[string]int)
	for item := range strings.SplitSeq(text, ",") {
		name, value, n := strings.TrimSpace(item), "", def
		if at := strings.LastIndexByte(name, ':'); at >= 0 {
			name, value = name[:at], name[at+1:]
			var err error
			if n, err = strconv.Atoi(value); err != nil {
				return nil, broker.Invalid("", "%q gives no whole number after the colon; write name:number,name:number", item)
			}
		} else if def == 0 {
			return nil, broker.Invalid("", "%q has no number; write name:number,name:number", item)
		}
		if _, twice := m[name]; twice {
			return nil, broker.Invalid("", "names %q twice", name)
		}
		m[name] = n
	}
	return m, nil
}
