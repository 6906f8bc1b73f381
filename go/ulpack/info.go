package ulpack

import (
	"encoding/json"
	"runtime"
	"runtime/debug"

	"github.com/ulpack/ulpack/go/internal/container"
	"github.com/ulpack/ulpack/go/internal/cpu"
)

// Version is the version of the library; the build sets it.
var Version = "dev"

// InfoJSON describes the library as UTF-8 JSON: version, format and encoder versions, the kernels in use, the kernels that
// the processor could run, platform, toolchain and default number of threads.
func InfoJSON() []byte {
	info := struct {
		Version   string   `json:"version"`
		Format    [2]int   `json:"format"`
		Encoder   int      `json:"encoder"`
		Kernels   string   `json:"kernels"`
		Available []string `json:"available"`
		OS        string   `json:"os"`
		Arch      string   `json:"arch"`
		Go        string   `json:"go"`
		Threads   int      `json:"threads"`
	}{
		Version: Version, Format: [2]int{container.MajorFormat, container.MinorFormat}, Encoder: container.EncoderVersion,
		Kernels: cpu.Selected(), Available: available(),
		OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(), Threads: runtime.GOMAXPROCS(0),
	}
	b, err := json.Marshal(info)
	if err != nil { // strings and integers cannot fail
		panic(err)
	}
	return b
}

// available names the kernels that the processor can run.
func available() []string {
	names := []string{"generic"}
	for _, k := range [...]struct {
		set  cpu.Set
		name string
	}{{cpu.AVX2, "avx2"}, {cpu.AVX512, "avx512"}, {cpu.NEON, "neon"}} {
		if cpu.Available()&k.set != 0 {
			names = append(names, k.name)
		}
	}
	return names
}

// FreeMemory returns memory that the library keeps for the next call to the system.
func FreeMemory() {
	runtime.GC() // pools drop what was not used since the collection before
	debug.FreeOSMemory()
}
