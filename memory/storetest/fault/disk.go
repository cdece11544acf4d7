package fault

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
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
		// Lazily: a process that another test starts at this moment has the open files of this
		// one until it runs its program.
		if out, err := exec.Command("umount", "--lazy", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	})
	return dir, true
}
