// Package flow has the steps of using DISTORT, from claiming a drive to proving
// that nothing is left, as one would do them by hand. The demo and the suites
// are made of them.
package flow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// pollInterval is how often an expected state is looked for.
const pollInterval = 100 * time.Millisecond

// Lab is what a flow needs of the lab beside its API server.
type Lab interface {
	// Guest gives access to a guest by its name.
	Guest(name string) (*guestexec.Client, error)
	// Explain says which boundary each volume did not pass.
	Explain(ctx context.Context, out io.Writer) error
}

// Flow works in one namespace of a running lab.
type Flow struct {
	// Namespace is where claims and pods are made.
	Namespace string

	config *rest.Config
	client client.Client
	set    kubernetes.Interface
	lab    Lab
}

// New returns a flow in that namespace.
func New(config *rest.Config, lab Lab, namespace string) (*Flow, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, storagev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make a client: %w", err)
		}
	}
	// The client library would print a stack trace for want of a logger; what it
	// has to say is in the errors it returns.
	ctrllog.SetLogger(logr.Discard())
	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &Flow{Namespace: namespace, config: config, client: direct, set: set, lab: lab}, nil
}

// Client returns the client that the flow uses.
func (f *Flow) Client() client.Client { return f.client }

// ErrTimeout says that something expected did not happen in time.
var ErrTimeout = errors.New("timed out")

// Eventually looks until check is satisfied. Check returns what is still
// missing, empty when nothing is, or an error that waiting will not mend.
func Eventually(ctx context.Context, what string, timeout time.Duration, check func(context.Context) (missing string, err error)) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	last := ""
	for {
		missing, err := check(limited)
		if err == nil && missing == "" {
			return nil
		}
		if err != nil && limited.Err() == nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if missing != "" {
			last = missing
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-limited.Done():
			return fmt.Errorf("%s: %w after %s: %s", what, ErrTimeout, timeout, last)
		case <-ticker.C:
		}
	}
}

// EnsureNamespace makes the flow's namespace.
func (f *Flow) EnsureNamespace(ctx context.Context) error {
	namespace := &corev1.Namespace{}
	namespace.Name = f.Namespace
	if err := f.client.Create(ctx, namespace); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("make namespace %s: %w", f.Namespace, err)
	}
	return nil
}
