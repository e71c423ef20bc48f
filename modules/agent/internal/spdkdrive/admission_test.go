package spdkdrive_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/distort-io/distort/modules/agent/internal/pci"
	"github.com/distort-io/distort/modules/agent/internal/pci/pcitest"
	"github.com/distort-io/distort/modules/agent/internal/spdkdrive"
)

func TestAdmissionShowsItsArithmetic(t *testing.T) {
	const pages = "kernel/mm/hugepages/hugepages-2048kB/free_hugepages"
	for name, tc := range map[string]struct {
		plan func(*spdkdrive.Plan)
		node func(*pcitest.Sysfs)
		says []string // nothing: it is admitted
	}{
		"the defaults":              {nil, nil, nil},
		"just enough memory":        {func(p *spdkdrive.Plan) { p.MemoryMiB = 324 }, nil, nil},
		"too little memory":         {func(p *spdkdrive.Plan) { p.MemoryMiB = 256 }, nil, []string{"256 MiB are less than 324 MiB", "196 MiB", "128 MiB"}},
		"few huge pages":            {nil, func(s *pcitest.Sysfs) { s.Set(pages, "255\n") }, []string{"512 MiB", "510 MiB are free", "vm.nr_hugepages"}},
		"just enough pages":         {nil, func(s *pcitest.Sysfs) { s.Set(pages, "256\n") }, nil},
		"a CPU that is not there":   {func(p *spdkdrive.Plan) { p.CoreMask = "0x10" }, nil, []string{"CPU 4", "online are 4"}},
		"all CPUs":                  {func(p *spdkdrive.Plan) { p.CoreMask = "0xf" }, nil, []string{"4 of 4 CPUs"}},
		"no mask":                   {func(p *spdkdrive.Plan) { p.CoreMask = "3" }, nil, []string{`core mask "3"`}},
		"more queues than buffers":  {func(p *spdkdrive.Plan) { p.Queues = 929 }, nil, []string{"1024 large buffers", "keep 96 each (96)", "928 that are left", "929 queues"}},
		"exactly as many":           {func(p *spdkdrive.Plan) { p.Queues = 928 }, nil, nil},
		"huge pages cannot be read": {nil, func(s *pcitest.Sysfs) { s.Set(pages, "many\n") }, []string{"2048 KiB"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := pcitest.New()
			plan := spdkdrive.Plan{CoreMask: "0x1", MemoryMiB: 512, SmallBuffers: 8192, LargeBuffers: 1024, Queues: 576}
			if tc.plan != nil {
				tc.plan(&plan)
			}
			if tc.node != nil {
				tc.node(s)
			}
			err := plan.Admit(pci.New(s))
			if (err == nil) != (tc.says == nil) {
				t.Fatalf("error %v", err)
			}
			for _, text := range tc.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %q", err, text)
				}
			}
			if err != nil && !errors.Is(err, spdkdrive.ErrRefused) && name != "huge pages cannot be read" {
				t.Errorf("%v is not ErrRefused", err)
			}
		})
	}
}
