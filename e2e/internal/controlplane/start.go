package controlplane

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/network"
	"github.com/distort-io/distort/e2e/internal/process"
)

const (
	// readyTimeout bounds the start of one component on a busy machine.
	readyTimeout = 3 * time.Minute
	pollInterval = 100 * time.Millisecond
	// probeTimeout bounds one question to a component.
	probeTimeout = 5 * time.Second
)

// Runner starts the control plane.
type Runner struct {
	// Programs is the directory with the components.
	Programs string
	// Dir is where etcd keeps its data, LogDir where output goes.
	Dir, LogDir string
	// Namespace is the lab's network.
	Namespace network.Namespace
	// Table starts and finds processes.
	Table process.Table
	// Started is told of each process as soon as it runs.
	Started func(name string, id process.Identity) error
}

// Start starts everything and returns when the API server serves and the
// controllers are healthy.
func (r *Runner) Start(ctx context.Context, c *Credentials) error {
	if err := c.writeKubeconfigs(); err != nil {
		return err
	}
	if err := r.startAll(storage(c, filepath.Join(r.Dir, "etcd"))); err != nil {
		return err
	}
	if err := r.waitHealthy(ctx, APIServer, layout.APIServer()+"/readyz"); err != nil {
		return err
	}
	if err := r.startAll(controllers(c)); err != nil {
		return err
	}
	if err := r.waitHealthy(ctx, ControllerManager, "https://127.0.0.1:10257/healthz"); err != nil {
		return err
	}
	return r.waitHealthy(ctx, Scheduler, "https://127.0.0.1:10259/healthz")
}

// StartSnapshots starts the controller of VolumeSnapshots beside the others, with
// the credentials that were made in that directory. Its program is the runner's.
func (r *Runner) StartSnapshots(ctx context.Context, credentials string) error {
	kubeconfig := filepath.Join(credentials, SnapshotController+".kubeconfig")
	if err := r.startAll([]Component{snapshots(kubeconfig)}); err != nil {
		return err
	}
	return r.waitHealthy(ctx, SnapshotController, "http://"+snapshotMetrics+"/metrics")
}

func (r *Runner) startAll(components []Component) error {
	for _, component := range components {
		var id process.Identity
		err := r.Namespace.Do(func() (err error) {
			id, err = r.Table.Start(LogFile(r.LogDir, component.Name), nil, filepath.Join(r.Programs, component.Name), component.Args...)
			return err
		})
		if err != nil {
			return err
		}
		if err := r.Started(component.Name, id); err != nil {
			return err
		}
	}
	return nil
}

// waitHealthy asks until the answer is 200.
func (r *Runner) waitHealthy(ctx context.Context, name, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	// The health of a component is no secret and is asked for before anything
	// is trusted, so its certificate is not verified.
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return r.Namespace.Dial(ctx, network, address)
		},
	}}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var last string
	for {
		answer, err := probe(ctx, client, url)
		if err == nil && answer == http.StatusText(http.StatusOK) {
			return nil
		}
		if last = answer; err != nil {
			last = err.Error()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not healthy (last: %s, log: %s): %w", name, last, LogFile(r.LogDir, name), ctx.Err())
		case <-ticker.C:
		}
	}
}

// probe asks once and returns the status text, or that and the body.
func probe(ctx context.Context, client *http.Client, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return http.StatusText(http.StatusOK), nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 512))
	return response.Status + " " + string(body), err
}
