package broker

// As finds what a backend can do beyond Broker: b itself if it is a T, or the
// broker inside of it, as long as there is one. Package backends and the
// metrics middleware wrap brokers; they, and whoever else does, have a method
//
//	Unwrap() broker.Broker
//
// so that a program which opened a store by URL can still ask, for example,
// whether it is a *pgbroker.Broker, and enqueue in its own transaction.
func As[T any](b Broker) (T, bool) {
	for b != nil {
		if t, ok := b.(T); ok {
			return t, true
		}
		inside, ok := b.(interface{ Unwrap() Broker })
		if !ok {
			break
		}
		b = inside.Unwrap()
	}
	var none T
	return none, false
}
