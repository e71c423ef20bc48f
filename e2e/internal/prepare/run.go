package prepare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/distort-io/distort/e2e/internal/cache"
	"github.com/distort-io/distort/e2e/internal/command"
)

// Preparer runs steps.
type Preparer struct {
	// Repo is the root of the checkout.
	Repo string
	// Store receives the artifacts; logs are kept beside them.
	Store cache.Store
	// Progress is told what happens.
	Progress *Progress
}

// Artifacts are the directories made, by step name.
type Artifacts map[string]string

// artifacts is the map while steps still write to it.
type artifacts struct {
	mutex sync.Mutex
	paths Artifacts
}

func (a *artifacts) get(name string) string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.paths[name]
}

func (a *artifacts) set(name, path string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.paths[name] = path
}

// Run runs the planned steps, each as soon as what it needs is there. The first
// failure stops the others; what they had finished stays in the cache.
func (p *Preparer) Run(ctx context.Context, steps []Step) (Artifacts, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	made := &artifacts{paths: Artifacts{}}
	lanes := map[Lane]chan struct{}{LaneCompile: make(chan struct{}, 1), LaneDebian: make(chan struct{}, 1)}
	done := make(map[string]chan struct{}, len(steps))
	for _, step := range steps {
		done[step.Name] = make(chan struct{})
	}
	failures := make(chan error, len(steps))
	stopBeat := p.Progress.Begin(len(steps))
	var group sync.WaitGroup
	for _, step := range steps {
		group.Go(func() {
			for _, need := range step.Needs {
				select {
				case <-done[need]:
				case <-ctx.Done():
					return
				}
			}
			if err := p.runStep(ctx, step, made, lanes[step.Lane]); err != nil {
				failures <- err
				cancel()
				return
			}
			close(done[step.Name])
		})
	}
	group.Wait()
	stopBeat()
	close(failures)
	if err := firstCause(failures); err != nil {
		return nil, err
	}
	return made.paths, ctx.Err()
}

// runStep makes one artifact, or finds it.
func (p *Preparer) runStep(ctx context.Context, step Step, made *artifacts, lane chan struct{}) error {
	logPath := filepath.Join(p.Store.Root(), "logs", step.Name+".log")
	log, err := createLog(logPath)
	if err != nil {
		return fmt.Errorf("prepare %s: %w", step.Name, err)
	}
	defer log.Close()
	shop := &Workshop{Repo: p.Repo, Store: p.Store, Run: command.Runner{Log: log}, artifacts: made, needs: step.Needs}
	key := ""
	if step.Key != nil {
		if key, err = step.Key(ctx, shop); err != nil {
			return fmt.Errorf("prepare %s: inputs: %w", step.Name, err)
		}
	}
	if lane != nil && (key == "" || !p.Store.Has(step.Name, key)) {
		select {
		case lane <- struct{}{}:
			defer func() { <-lane }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	begin := time.Now()
	shop.Announce = func() { p.Progress.Start(step, logPath) }
	build := func(ctx context.Context, dir string) error {
		shop.Announce()
		return step.Build(ctx, shop, dir)
	}
	path, hit := "", false
	if step.Key == nil {
		err = step.Build(ctx, shop, "")
	} else {
		path, hit, err = p.Store.Ensure(ctx, step.Name, key, build)
	}
	if err != nil {
		p.Progress.Failed(step, time.Since(begin), ctx.Err() != nil)
		return fmt.Errorf("prepare %s: %w (log: %s)", step.Name, err, logPath)
	}
	made.set(step.Name, path)
	p.Progress.Done(step, hit, time.Since(begin))
	if step.Keep > 0 {
		return p.Store.Prune(step.Name, step.Keep)
	}
	return nil
}

func createLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
}

// firstCause picks the failure that was not merely the stop of the others.
func firstCause(failures <-chan error) error {
	var first error
	for err := range failures {
		if first == nil || errors.Is(first, context.Canceled) {
			first = err
		}
	}
	return first
}
