package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// readiness is what must be true before the program counts as ready.
type readiness struct {
	mu     sync.Mutex
	checks []check
}

type check struct {
	name    string
	ok      func() bool
	serving bool
}

// require adds a condition for /readyz.
func (r *readiness) require(name string, ok func() bool) { r.add(check{name: name, ok: ok}) }

// requireToServe adds a condition for /readyz and for CSI's Probe.
func (r *readiness) requireToServe(name string, ok func() bool) {
	r.add(check{name: name, ok: ok, serving: true})
}

func (r *readiness) add(c check) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checks = append(r.checks, c)
}

// missing names the first condition that is not met.
func (r *readiness) missing(servingOnly bool) (name string, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.checks {
		if (c.serving || !servingOnly) && !c.ok() {
			return c.name, true
		}
	}
	return "", false
}

func (r *readiness) serving() bool {
	_, missing := r.missing(true)
	return !missing
}

func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if name, missing := r.missing(false); missing {
		http.Error(w, "not yet: "+name, http.StatusServiceUnavailable)
		return
	}
	answerOK(w, nil)
}

// answerOK needs no error: whoever asked and left does not miss the answer.
func answerOK(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") }

// serveHTTP opens the addresses for probes and metrics.
func (p *parts) serveHTTP(ctx context.Context, o Options) error {
	probes := http.NewServeMux()
	probes.HandleFunc("/healthz", answerOK)
	probes.Handle("/readyz", p.ready)
	samples := http.NewServeMux()
	samples.Handle("/metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{}))
	for _, s := range []struct {
		address string
		handler http.Handler
	}{{o.HealthAddress, probes}, {o.MetricsAddress, samples}} {
		if s.address == "" || s.address == "0" {
			continue
		}
		var config net.ListenConfig
		l, err := config.Listen(ctx, "tcp", s.address)
		if err != nil {
			return fmt.Errorf("listen on %s: %w", s.address, err)
		}
		server := &http.Server{Handler: s.handler, ReadHeaderTimeout: 5 * time.Second}
		p.group.Go(func() error {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve %s: %w", s.address, err)
			}
			return nil
		})
		p.group.Go(func() error {
			<-ctx.Done()
			return server.Close()
		})
	}
	return nil
}
