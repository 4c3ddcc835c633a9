// Package asynqcompat runs programs that were written for asynq
// (github.com/hibiken/asynq) on the stores and servers of package jobs. Handlers,
// muxes and middleware of asynq stay as they are, and so does the code that enqueues:
//
//	// before: client := asynq.NewClient(asynq.RedisClientOpt{Addr: addr})
//	client := asynq.NewClient(asynqcompat.Conn(jobsClient))
//
//	// before: srv.Run(mux)
//	err := server.Run(ctx, asynqcompat.Handler(mux))
//
// So a program moves in one step, and its handlers one by one, when there is time.
// docs/moving-from-asynq.md of the module jobs has the steps, and the name here for each name of asynq.
//
// # What handlers see
//
// The task's type, payload and headers. The context ends as asynq's does: at the
// task's timeout or deadline, when the task is cancelled, or at the end of a
// shutdown. What asynq keeps in the context under a key of its own cannot be put
// there from outside: a handler that calls asynq.GetTaskID, GetRetryCount, GetMaxRetry
// or GetQueueName calls the function of the same name here, which works under both
// servers. For the same reason Task.ResultWriter is nil; see [ResultWriter].
//
// # What errors mean
//
// As in asynq: nil completes the task. asynq.SkipRetry makes it dead (archived) at
// once. asynq.RevokeTask cancels it. Another error, or a panic, is retried until the task's MaxRetry is
// spent; then it is dead. A mux without a handler for the type does not use up retries: the job waits up
// to a day for a server that has one (jobs.Config.UnknownTypeLimit).
package asynqcompat
