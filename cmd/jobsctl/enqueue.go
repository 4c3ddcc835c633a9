package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs"
)

func (a *app) enqueue() *cobra.Command {
	var typ, queue, payload, file, id, key, unique string
	var delay, retention time.Duration
	var retries, priority int
	var headers map[string]string
	cmd := &cobra.Command{
		Use:   "enqueue --type TYPE",
		Short: "Enqueue a job",
		Example: `  jobsctl enqueue --type email:welcome --queue default --payload '{"user":1}'
  jobsctl enqueue --type report --payload-file - <report.json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if typ == "" {
				return misuse("give --type")
			}
			content := []byte(payload)
			if file != "" {
				if payload != "" {
					return misuse("give --payload or --payload-file, not both")
				}
				var err error
				if content, err = a.read(file); err != nil {
					return err
				}
			}
			given := cmd.Flags().Changed
			var options []jobs.Option
			add := func(flag string, o jobs.Option) {
				if given(flag) {
					options = append(options, o)
				}
			}
			add("queue", jobs.WithQueue(queue))
			add("id", jobs.WithID(id))
			add("key", jobs.WithPartitionKey(key))
			add("unique", jobs.WithUniqueKey(unique))
			add("delay", jobs.WithDelay(delay))
			add("retention", jobs.WithRetention(retention))
			add("max-retries", jobs.WithMaxRetries(retries))
			add("priority", jobs.WithPriority(jobs.Priority(min(max(priority, 0), 255))))
			for name, value := range headers {
				options = append(options, jobs.WithHeader(name, value))
			}
			return a.withClient(func(ctx context.Context, client *jobs.Client, _ []string) error {
				info, err := client.Enqueue(ctx, jobs.NewTask(typ, content, options...))
				if err != nil {
					return err
				}
				line := fmt.Sprintf("%s  %s  %s  %s", plain(info.ID), plain(info.Queue), info.State, clock(info.RunAt))
				return a.answer(map[string]any{"id": info.ID, "queue": info.Queue, "state": info.State.String(), "run_at": at(info.RunAt)},
					"%s", strings.TrimSpace(line))
			})(cmd, nil)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&typ, "type", "t", "", "type of the task")
	flags.StringVarP(&queue, "queue", "q", jobs.DefaultQueue, "queue")
	flags.StringVarP(&payload, "payload", "p", "", "payload")
	flags.StringVar(&file, "payload-file", "", "file with the payload; - is the standard input")
	flags.StringVar(&id, "id", "", "ID (default: a new one)")
	flags.StringVarP(&key, "key", "k", "", "partition key")
	flags.StringVar(&unique, "unique", "", "unique key; the job is refused while another job holds it")
	spanFlag(flags, &delay, "delay", 0, "due after this time, such as 10m")
	spanFlag(flags, &retention, "retention", 0, "keep the job's record for this time after its end")
	flags.IntVar(&retries, "max-retries", 25, "number of retries after the first run")
	flags.IntVar(&priority, "priority", 2, "1 runs first, 4 last")
	flags.StringToStringVar(&headers, "header", nil, "header, name=value; can be repeated")
	return cmd
}

// maxInput is how much of a file is read at most, in bytes: more than any payload may
// have.
const maxInput = 16 << 20

// file opens a file, or the standard input for "-".
func (a *app) file(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(a.in), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, misuse("%v", err)
	}
	return f, nil
}

// read returns the content of a file, or of the standard input for "-".
func (a *app) read(name string) ([]byte, error) {
	in, err := a.file(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	content, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err == nil && len(content) > maxInput {
		err = misuse("%s is larger than %d bytes", name, maxInput)
	}
	return content, err
}
