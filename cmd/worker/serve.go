package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/hearsay-go/hearsay/internal/localhttp"
	"github.com/hearsay-go/hearsay/memory/visible"
)

// check is one line of /readyz.
type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
	// Verifier is "unasked", "answers" or "down" of one. It says nothing of the worker.
	Verifier string `json:"verifier,omitempty"`
}

// readiness is the answer of /readyz.
type readiness struct {
	Ready   bool      `json:"ready"`
	Version string    `json:"version"` // of the build
	Now     time.Time `json:"now"`     // the clock of the worker
	Checks  []check   `json:"checks"`
}

// readyTimeout is how long each check may take. They are made at once.
const readyTimeout = 2 * time.Second

// handler serves /healthz (the process answers), /readyz (it can do its work) and
// /metrics. ready runs the checks. Asked by a host name that is not one of names nor of
// this machine, or by a page of another site, it refuses before anything is looked at.
func handler(m *meters, ready func(context.Context) []check, names ...string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		answer := readiness{Ready: true, Version: version(), Checks: ready(r.Context())}
		answer.Now = time.Now().UTC()
		for _, c := range answer.Checks {
			answer.Ready = answer.Ready && c.OK
		}
		w.Header().Set("Content-Type", "application/json")
		if !answer.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		enc := json.NewEncoder(visible.JSONWriter(w))
		enc.SetIndent("", "  ")
		enc.Encode(answer) // the client may be gone; that is its business
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	return localhttp.Guard{Names: names}.Handler(mux)
}

// serve answers on l until ctx ends.
func serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		quick, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if srv.Shutdown(quick) != nil {
			srv.Close()
		}
	})
	err := srv.Serve(l)
	if !stop() {
		<-done
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
