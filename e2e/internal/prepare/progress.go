package prepare

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// heartbeat is how often a long step says that it is still at work.
const heartbeat = 30 * time.Second

// Progress prints one line for each thing that happens, so that it reads well
// on a terminal and in a log.
type Progress struct {
	mutex   sync.Mutex
	out     io.Writer
	begin   time.Time
	total   int
	done    int
	running map[string]time.Time
}

// NewProgress returns a progress printed to out.
func NewProgress(out io.Writer) *Progress {
	return &Progress{out: out, running: map[string]time.Time{}}
}

// Begin starts the clock; the function it returns stops the heartbeat.
func (p *Progress) Begin(total int) (stop func()) {
	p.mutex.Lock()
	p.begin, p.total, p.done = time.Now(), total, 0
	p.mutex.Unlock()
	ticker, quit := time.NewTicker(heartbeat), make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				p.beat()
			case <-quit:
				return
			}
		}
	}()
	return func() { ticker.Stop(); close(quit) }
}

// Start says that a step is being built.
func (p *Progress) Start(step Step, logPath string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.running[step.Name] = time.Now()
	p.line(step.Name, "building: %s (log: %s)", step.Summary, logPath)
}

// Done says that a step is there.
func (p *Progress) Done(step Step, hit bool, took time.Duration) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.running, step.Name)
	p.done++
	switch {
	case hit:
		p.line(step.Name, "cached")
	default:
		p.line(step.Name, "done in %s", round(took))
	}
}

// Failed says that a step was not finished.
func (p *Progress) Failed(step Step, took time.Duration, stopped bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.running, step.Name)
	word := "FAILED"
	if stopped {
		word = "stopped"
	}
	p.line(step.Name, "%s after %s", word, round(took))
}

func (p *Progress) beat() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for name, since := range p.running {
		p.line(name, "still at work, %s", round(time.Since(since)))
	}
}

// line prints with the time since Begin and the count of steps done.
func (p *Progress) line(step, format string, args ...any) {
	fmt.Fprintf(p.out, "prepare %6s  %2d/%d  %-12s %s\n", round(time.Since(p.begin)), p.done, p.total, step, fmt.Sprintf(format, args...))
}

func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}
