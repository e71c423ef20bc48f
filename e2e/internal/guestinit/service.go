package guestinit

import (
	"os"
	"os/exec"
	"time"

	"github.com/distort-io/distort/e2e/internal/guestspec"
)

// restartDelay is between the end of a service and its next start.
const restartDelay = time.Second

// superviseAll keeps the services running, each by itself.
func superviseAll(services []guestspec.Service) {
	for _, service := range services {
		go supervise(service)
	}
}

func supervise(service guestspec.Service) {
	for service.After != "" {
		if _, err := os.Stat(service.After); err == nil {
			break
		}
		time.Sleep(diskPoll)
	}
	for {
		err := runService(service)
		if _, goingDown := os.Stat(guestspec.NoLogin); goingDown == nil {
			return
		}
		say("service %s ended (%v), starting it again", service.Name, err)
		time.Sleep(restartDelay)
	}
}

func runService(service guestspec.Service) error {
	log, err := os.OpenFile(guestspec.LogPath(service.Name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(service.Args[0], service.Args[1:]...)
	cmd.Env = append(os.Environ(), service.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	say("service %s starts", service.Name)
	return cmd.Run()
}
