package main

import (
	"runtime"
	"syscall"
	"time"
)

// meter measures what this process uses.
type meter struct {
	at     time.Time
	cpu    time.Duration
	allocs uint64
}

func startMeter() meter {
	runtime.GC() // collects earlier garbage
	m := meter{cpu: ownCPU(), allocs: ownAllocs()}
	m.at = time.Now()
	return m
}

// read returns seconds of CPU and allocations since the start.
func (m meter) read() (cpu, allocs float64) {
	return (ownCPU() - m.cpu).Seconds(), float64(ownAllocs() - m.allocs)
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // only for an invalid argument
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func ownAllocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
