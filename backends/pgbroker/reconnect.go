package pgbroker

// Reconnect closes the connections of the pool that New was given and of the
// broker's own, those in use once they are returned: a server that was demoted, or
// a proxy before it, may keep connections open on which nothing can be written.
func (b *Broker) Reconnect() {
	b.pool.Reset()
	if own := b.pulse.pool(); own != nil {
		own.Reset()
	}
}
