package pgbroker

import "time"

// Statements returns what the broker sends, by name.
func Statements(schema string) map[string]string { return loadQueries(schema) }

// Dear sets how long a statement of Queues may take before it counts as dear, and after how
// many times as long a dear one is repeated.
func (b *Broker) Dear(from time.Duration, share int) {
	b.ages.dear = dearness{from, share}
	b.held.dear = b.ages.dear
}

// EndPauses has the next Queues search everything.
func (b *Broker) EndPauses() {
	for _, q := range b.ages.queues {
		q.front = time.Now()
	}
	b.held.until = time.Time{}
}
