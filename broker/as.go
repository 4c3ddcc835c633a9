package broker

// As finds what a backend can do beyond Broker. It returns b if that is a T, or else the
// first T among the brokers that b wraps. Every type that wraps a broker has a method
//
//	Unwrap() broker.Broker
//
// so that a program that opened a store by URL can find its *pgbroker.Broker, for
// example, and enqueue in its own transaction.
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
