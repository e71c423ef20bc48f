package pci_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/distort-io/distort/modules/agent/internal/pci"
	"github.com/distort-io/distort/modules/agent/internal/pci/pcitest"
)

const (
	drive = "0000:00:04.0"
	other = "0000:00:05.0"
	class = "0x010802"
)

func TestWhichDriverGivesAFunctionToPrograms(t *testing.T) {
	for name, tc := range map[string]struct {
		arrange func(*pcitest.Sysfs)
		want    string
		err     error
		says    string
	}{
		"behind an IOMMU":            {func(s *pcitest.Sysfs) { s.Add(drive, class, pci.NVMe, "7") }, pci.VFIO, nil, ""},
		"without one":                {func(s *pcitest.Sysfs) { s.Add(drive, class, pci.NVMe, "") }, pci.UIO, nil, ""},
		"with a bridge in its group": {func(s *pcitest.Sysfs) { s.Add(drive, class, pci.NVMe, "7"); s.Add(other, "0x060400", "pcieport", "7") }, pci.VFIO, nil, ""},
		"with somebody else's":       {func(s *pcitest.Sysfs) { s.Add(drive, class, pci.NVMe, "7"); s.Add(other, "0x020000", "e1000e", "7") }, "", pci.ErrShared, other},
		"with one of nobody":         {func(s *pcitest.Sysfs) { s.Add(drive, class, pci.NVMe, "7"); s.Add(other, "0x020000", "", "7") }, "", pci.ErrShared, other},
		"in a group of its own":      {func(s *pcitest.Sysfs) { s.Add(drive, class, pci.NVMe, "7"); s.Add(other, "0x020000", "e1000e", "8") }, pci.VFIO, nil, ""},
		"vfio-pci is not loaded":     {func(s *pcitest.Sysfs) { s.Add(drive, class, pci.NVMe, "7"); s.Unload(pci.VFIO) }, "", pci.ErrNoDriver, "vfio-pci"},
	} {
		t.Run(name, func(t *testing.T) {
			s := pcitest.New()
			tc.arrange(s)
			got, err := pci.New(s).ForPrograms(drive)
			if !errors.Is(err, tc.err) || err == nil && got != tc.want || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%q, %v; want %q, %v with %q", got, err, tc.want, tc.err, tc.says)
			}
		})
	}
}

// TestBindIsFinishedAfterAnyCrash kills the one who binds at every change.
func TestBindIsFinishedAfterAnyCrash(t *testing.T) {
	for _, from := range []string{pci.NVMe, pci.VFIO, ""} {
		for _, to := range []string{pci.NVMe, pci.VFIO} {
			for n := 1; ; n++ {
				s := pcitest.New()
				s.Add(drive, class, from, "7")
				s.Add(other, class, pci.NVMe, "8")
				s.KillAt((n+1)/2, n%2 == 0)
				err := pci.New(s).Bind(drive, to)
				died := s.Killed()
				if !died && err != nil {
					t.Fatalf("from %q to %q: %v", from, to, err)
				}
				s.Revive()
				if err := pci.New(s).Bind(drive, to); err != nil || s.Driver(drive) != to {
					t.Errorf("from %q to %q, killed at %d: then %q, %v", from, to, n, s.Driver(drive), err)
				}
				if got := s.Driver(other); got != pci.NVMe {
					t.Errorf("another function has driver %q", got)
				}
				if !died {
					break
				}
			}
		}
	}
}

func TestADriverThatBindsNothingIsNoSuccess(t *testing.T) {
	s := pcitest.New()
	s.Add(drive, class, pci.NVMe, "7")
	s.Refuse(pci.VFIO, true)
	if err := pci.New(s).Bind(drive, pci.VFIO); !errors.Is(err, pci.ErrNotBound) {
		t.Errorf("error %v", err)
	}
	if err := pci.New(s).Bind(drive, pci.NVMe); err != nil || s.Driver(drive) != pci.NVMe {
		t.Errorf("back: %q, %v", s.Driver(drive), err)
	}
	if err := pci.New(s).Bind("../../x", pci.NVMe); err == nil {
		t.Error("a path was taken for an address")
	}
}

func TestHugePagesAndCPUs(t *testing.T) {
	s := pcitest.New()
	s.Set("kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "1\n")
	s.Set("devices/system/cpu/online", "0-1,4,6-7\n")
	if got, err := pci.New(s).FreeHugePages(); err != nil || got != 3<<30 {
		t.Errorf("free huge pages %d, %v", got, err)
	}
	cpus, err := pci.New(s).OnlineCPUs()
	if err != nil || len(cpus) != 5 || !cpus[4] || cpus[5] {
		t.Errorf("CPUs %v, %v", cpus, err)
	}
}
