package kernel

import "sync"

// probes asks devices for an answer, each by one goroutine at a time: a device
// that never answers holds one thread and no more. The zero value is ready.
type probes struct {
	mu      sync.Mutex
	running map[string]chan struct{}
}

// start returns a channel that is closed when the device has answered, be it
// with an error.
func (p *probes) start(fs FS, path string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if answered, ok := p.running[path]; ok {
		return answered
	}
	answered := make(chan struct{})
	if p.running == nil {
		p.running = map[string]chan struct{}{}
	}
	p.running[path] = answered
	go func() {
		fs.AwaitDevice(path)
		p.mu.Lock()
		delete(p.running, path)
		p.mu.Unlock()
		close(answered)
	}()
	return answered
}
