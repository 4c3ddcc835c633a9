package broker

import "strings"

// ReservedPrefix begins the names of queues that belong to the framework:
// those of schedules, for example. Applications do not enqueue into them, and
// lists of all queues leave them out.
const ReservedPrefix = "@"

// Reserved reports whether a queue belongs to the framework.
func Reserved(queue string) bool { return strings.HasPrefix(queue, ReservedPrefix) }

// CheckUnreserved refuses the name of a queue that belongs to the framework.
func CheckUnreserved(queue string) error {
	if Reserved(queue) {
		return Invalid("queue", "%q begins with %s, as the queues of the framework itself do; choose another name", short(queue), ReservedPrefix)
	}
	return nil
}
