package pgbroker

// Reconnect closes the connections of the pool that was passed to New, and the broker's own
// ones. Connections in use are closed when they are returned. It is needed because a server
// that was demoted, or a proxy in front of it, may keep connections open that cannot write.
func (b *Broker) Reconnect() {
	b.pool.Reset()
	if own := b.pulse.pool(); own != nil {
		own.Reset()
	}
}
