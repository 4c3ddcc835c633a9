package broker

import "time"

// Field numbers of a stored WorkerInfo.
const (
	workerHost = iota + 1
	workerPID
	workerProgram
	workerConcurrency
	workerQueue
	workerType
	workerStartedAt
	workerRunQueue // then ID and time of the same job
	workerRunID
	workerRunSince
)

// AppendWorkerInfo appends the stored form of what a worker says about itself. It leaves
// out ID, Until and Held, which the store knows.
func AppendWorkerInfo(dst []byte, i *WorkerInfo) []byte {
	w := writer{b: dst}
	w.str(workerHost, i.Host)
	w.int(workerPID, int64(i.PID))
	w.str(workerProgram, i.Program)
	w.int(workerConcurrency, int64(i.Concurrency))
	for _, q := range i.Queues {
		w.str(workerQueue, q)
	}
	for _, t := range i.Types {
		w.str(workerType, t)
	}
	w.time(workerStartedAt, i.StartedAt)
	for _, r := range i.Longest {
		w.str(workerRunQueue, r.Queue)
		w.str(workerRunID, r.ID)
		w.time(workerRunSince, r.Since)
	}
	return w.b
}

// ParseWorkerInfo reads a stored WorkerInfo and adds what the store knows.
func ParseWorkerInfo(p []byte, id string, until time.Time, held int) (WorkerInfo, error) {
	i := WorkerInfo{ID: id, Until: until, Held: held}
	err := fields(p, func(field int, v int64, p []byte) error {
		last := len(i.Longest) - 1
		switch field {
		case workerHost:
			i.Host = string(p)
		case workerPID:
			i.PID = int(v)
		case workerProgram:
			i.Program = string(p)
		case workerConcurrency:
			i.Concurrency = int(v)
		case workerQueue:
			i.Queues = append(i.Queues, string(p))
		case workerType:
			i.Types = append(i.Types, string(p))
		case workerStartedAt:
			i.StartedAt = FromMicros(v)
		case workerRunQueue:
			i.Longest = append(i.Longest, Running{Queue: string(p)})
		case workerRunID:
			if last >= 0 {
				i.Longest[last].ID = string(p)
			}
		case workerRunSince:
			if last >= 0 {
				i.Longest[last].Since = FromMicros(v)
			}
		}
		return nil
	})
	return i, err
}
