package main

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// serve starts to serve h on an address; the server runs until it is closed.
func serve(address string, h http.Handler) (*http.Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	web := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute}
	slog.Info("worker: serving probes and metrics", "address", l.Addr().String())
	go func() {
		if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("worker: probes and metrics are no longer served", "error", err)
		}
	}()
	return web, nil
}
