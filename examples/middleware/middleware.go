// Package middleware shows two middlewares of an application: one around enqueueing,
// one around handlers.
package middleware

import (
	"context"
	"log/slog"
	"time"

	"github.com/seed81422ce9/jobs"
)

type tenantKey struct{}

// WithTenant returns a context for requests of a tenant.
func WithTenant(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// TenantOf returns the tenant of a context, or "".
func TenantOf(ctx context.Context) string {
	tenant, _ := ctx.Value(tenantKey{}).(string)
	return tenant
}

// begin enqueue

// Tenant makes the tenant of the request the key of each job that has none. So no caller can forget the
// key, and tenants take turns.
func Tenant() jobs.EnqueueMiddleware {
	return func(next jobs.EnqueueFunc) jobs.EnqueueFunc {
		return func(ctx context.Context, batch []*jobs.Outgoing) {
			for _, o := range batch {
				if o.Body.Key == "" {
					o.Body.Key = TenantOf(ctx)
				}
			}
			next(ctx, batch) // once, with all of them or a part
		}
	}
}

// end enqueue

// begin handle

// Audit logs the tenant and the type of each job and how its run ended. It gives the handler a context
// with the tenant.
func Audit(log *slog.Logger) jobs.Middleware {
	return func(next jobs.Handler) jobs.Handler {
		return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) (err error) {
			began, err := time.Now(), error(&jobs.PanicError{Value: "the handler did not return"})
			defer func() { // also after a panic, which continues
				e := jobs.EndingOf(ctx, job, err)
				log.LogAttrs(ctx, slog.LevelInfo, "audit", slog.String("tenant", job.PartitionKey()), slog.String("type", job.Type()),
					slog.String("id", job.ID()), slog.String("outcome", e.Outcome), slog.Duration("took", time.Since(began)))
			}()
			err = next.ProcessJob(WithTenant(ctx, job.PartitionKey()), job)
			return err
		})
	}
}

// end handle
