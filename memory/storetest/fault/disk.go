package fault

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// How often, and after which pause, a file system that is in use is unmounted anew.
const (
	busyTries = 600
	busyPause = 50 * time.Millisecond
)

// SmallDisk mounts a file system of a size in bytes for one test, where this process
// may, which is as root on Linux. It is in memory.
func SmallDisk(t *testing.T, size int) (dir string, ok bool) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Log("not root on Linux: nothing is mounted")
		return "", false
	}
	dir = t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprint("size=", size), "tmpfs", dir).CombinedOutput(); err != nil {
		t.Logf("nothing can be mounted here: %s", out)
		return "", false
	}
	t.Cleanup(func() {
		// A process that another test starts at this moment has the open files of this one until
		// it runs its program.
		for tries := 0; ; tries++ {
			out, err := exec.Command("umount", dir).CombinedOutput()
			if err == nil {
				return
			}
			if tries == busyTries {
				t.Errorf("umount: %s", out)
				_ = exec.Command("umount", "--lazy", dir).Run() // else the folder stays
				return
			}
			time.Sleep(busyPause)
		}
	})
	return dir, true
}
