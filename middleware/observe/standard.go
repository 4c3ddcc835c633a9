package observe

import (
	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/middleware"
)

// StandardConfig configures Standard. The zero value of each part works.
type StandardConfig struct {
	// Broker is the store, see MetricsConfig. Unless nil, it replaces Metrics.Broker.
	Broker broker.Broker

	// Tracing configures spans. The zero value uses the global tracer provider.
	Tracing TracingConfig
	// Metrics configures metrics. The zero value uses the global meter provider, and Broker as its broker.
	Metrics MetricsConfig
	// Logging configures the line for each run. The zero value uses slog.Default().
	Logging LoggingConfig
	// Retry classifies errors. The zero value leaves counts and delays to the server.
	Retry middleware.RetryConfig

	// Timeout bounds handlers. The zero value leaves Timeout out of the chain; then only the timeouts of
	// the server and of the job apply.
	Timeout middleware.TimeoutConfig
}

// Standard is the chain that most applications mount: Tracing, Metrics, Logging,
// Retry, Timeout and Recovery in a sensible order, with their parts for clients
// and for servers' hooks. One Standard may serve any number of clients and
// servers of its broker. Mount other middleware, such as limits for one type of
// task, on a mux or a pattern, which run inside of it. A middleware.Breaker there gets
// errors before Retry has classified them: mount another Retry inside of it, which
// overrides the outer one.
type Standard struct {
	metrics *Metrics
	tracing *Tracing
	chain   []jobs.Middleware
}

// NewStandard builds the chain. It returns the error of NewMetrics, and panics
// if a field is outside its limits, as the constructors of the parts do. Call
// Close when its servers and clients have ended.
func NewStandard(cfg StandardConfig) (*Standard, error) {
	if cfg.Broker != nil {
		cfg.Metrics.Broker = cfg.Broker
	}
	metrics, err := NewMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	s := &Standard{metrics: metrics, tracing: NewTracing(cfg.Tracing)}
	s.chain = []jobs.Middleware{s.tracing.Middleware(), metrics.Middleware(), Logging(cfg.Logging), middleware.Retry(cfg.Retry)}
	if cfg.Timeout != (middleware.TimeoutConfig{}) {
		s.chain = append(s.chain, middleware.Timeout(cfg.Timeout))
	}
	s.chain = append(s.chain, middleware.Recovery(nil))
	return s, nil
}

// Broker returns the broker to give to clients and servers: the configured one,
// with its calls measured.
func (s *Standard) Broker() broker.Broker { return s.metrics.Broker() }

// Enqueue returns the chain for jobs.ClientConfig.Middleware.
func (s *Standard) Enqueue() []jobs.EnqueueMiddleware {
	return []jobs.EnqueueMiddleware{s.tracing.Enqueue(), s.metrics.Enqueue()}
}

// Middleware returns the chain for jobs.Config.Middleware.
func (s *Standard) Middleware() []jobs.Middleware { return append([]jobs.Middleware(nil), s.chain...) }

// Hooks returns the hooks for jobs.Config.Hooks; add others with jobs.JoinHooks.
func (s *Standard) Hooks() jobs.Hooks { return jobs.JoinHooks(s.tracing.Hooks(), s.metrics.Hooks()) }

// Metrics returns the metrics of the chain, for parts that the application mounts
// itself, such as Metrics.OnDuplicate in DedupConfig.
func (s *Standard) Metrics() *Metrics { return s.metrics }

// Close ends the collection of metrics.
func (s *Standard) Close() error { return s.metrics.Close() }
