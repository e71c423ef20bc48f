package gpt_test

import (
	"testing"

	"github.com/distort-io/distort/modules/agent/internal/carve/carvetest"
)

func TestFakeDrive(t *testing.T) {
	carvetest.RunSuite(t, func(t *testing.T) carvetest.Env {
		return carvetest.NewDrive("FAKE0001", 1<<30).Env(t)
	})
}

func TestFakeDriveWith4KBlocks(t *testing.T) {
	carvetest.RunSuite(t, func(t *testing.T) carvetest.Env {
		return carvetest.NewDrive("FAKE0001", 1<<30).With4KBlocks().Env(t)
	})
}
