package conformance

import "time"

// SetPatience shortens every wait for what must happen, before any rule runs.
func SetPatience(d time.Duration) { patience = d }
