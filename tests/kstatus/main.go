// Prints the health that kstatus computes for objects: one JSON object per line in, one pair of state and reason per line out.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16*1024*1024)
	for lines.Scan() {
		answer, _ := json.Marshal(health(lines.Bytes()))
		fmt.Println(string(answer))
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func health(document []byte) (answer [2]string) {
	// kstatus panics on some containerStatuses of the wrong type.
	defer func() {
		if recover() != nil {
			answer = [2]string{"Unknown", ""}
		}
	}()
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(document); err != nil {
		return [2]string{"Unreadable", err.Error()}
	}
	result, err := status.Compute(object)
	if err != nil {
		return [2]string{"Unknown", ""}
	}
	if len(result.Conditions) == 0 {
		return [2]string{string(result.Status), ""}
	}
	return [2]string{string(result.Status), result.Conditions[0].Reason}
}
