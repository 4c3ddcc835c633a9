package broker

// checkUnique refuses a Unique that is outside the limits or contradicts itself.
func (j *NewJob) checkUnique(l Limits) error {
	u := j.Body.Unique
	if u.Key == "" {
		switch {
		case u.Conflict != ConflictRefuse:
			return Invalid("unique key", "is empty although a conflict is set; give a key")
		case u.TTL != 0 || u.Mode != UniqueUntilDone || u.Latest != 0:
			return Invalid("unique key", "is empty although a mode or time of uniqueness is set; give a key")
		}
		return nil
	}
	if l.NoUnique {
		return &Error{Field: "unique key", Err: ErrUnsupported}
	}
	if err := CheckName("unique key", u.Key); err != nil {
		return err
	}
	if err := CheckDuration("unique ttl", u.TTL); err != nil {
		return err
	}
	switch u.Mode {
	case UniqueUntilDone, UniqueUntilStarted:
	case UniqueWindow:
		if u.TTL == 0 {
			return Invalid("unique ttl", "is zero; a unique window needs a length")
		}
	default:
		return Invalid("unique mode", "%d is unknown", u.Mode)
	}
	return j.checkConflict(l)
}

// checkConflict refuses a Conflict that does not go with the rest (§39 to §41).
func (j *NewJob) checkConflict(l Limits) error {
	u := j.Body.Unique
	if err := CheckDuration("unique latest", u.Latest); err != nil {
		return err
	}
	switch debounce := u.Conflict == ConflictDebounce; {
	case u.Conflict > ConflictKeepLast:
		return Invalid("unique conflict", "%d is unknown", u.Conflict)
	case u.Conflict != ConflictRefuse && l.NoMove:
		return &Error{Field: "unique conflict", Err: ErrUnsupported}
	case u.Conflict == ConflictKeepLast && u.Mode != UniqueUntilDone:
		return Invalid("unique mode", "is not until done; keep last needs that mode")
	case debounce && u.Mode == UniqueWindow:
		return Invalid("unique mode", "is a window; debounce needs until done or until started")
	case debounce && u.Latest == 0:
		return Invalid("unique latest", "is zero; debounce needs the longest time that a job waits")
	case !debounce && u.Latest != 0:
		return Invalid("unique latest", "is set without debounce; leave it out")
	case debounce && j.Delay > u.Latest:
		return Invalid("unique latest", "is %v, less than the delay of %v; make it longer", u.Latest, j.Delay)
	}
	return nil
}

// Meets reports whether j may replace the holder of its unique key, or wait behind it,
// instead of being refused. A restored job may not.
func (j *NewJob) Meets() bool { return j.Body.Unique.Conflict != ConflictRefuse && j.Restore == nil }
