package keyring

// Fault runs an operation on a file, or does not.
type Fault = func(op, path string, act func() error) error

func CreateWith(dir string, fault Fault) (*Ring, error) {
	return create(&folder{dir: dir, fault: fault}, nil)
}

func OpenWith(dir string, fault Fault) (*Ring, error) {
	return open(&folder{dir: dir, fault: fault}, nil)
}
