package holdfast.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;

/** Chooses the lock that a worker takes next: see bench/workload. */
final class Names {

    private static final double ZIPF_S = 1.1;

    private final String naming;
    private final String prefix;
    private final int names;
    private final double[] zipf; // cumulative
    private final AtomicLong begun = new AtomicLong();
    private int run;

    Names(JsonNode workload, String prefix) {
        this.naming = workload.path("naming").asText();
        this.prefix = prefix;
        this.names = workload.path("names").asInt();
        this.zipf = naming.equals("zipf") ? cumulative(names) : null;
    }

    private static double[] cumulative(int n) {
        double[] sums = new double[n];
        double sum = 0;
        for (int i = 0; i < n; i++) {
            sum += Math.pow(1 + i, -ZIPF_S);
            sums[i] = sum;
        }
        return sums;
    }

    /** Begins a run. The names of a fresh naming are new in each run. */
    void begin() {
        run++;
        begun.set(0);
    }

    /** The one lock of a hot naming. */
    String hot() {
        return prefix + ":0";
    }

    String held(int i) {
        return prefix + ":" + i;
    }

    /** Returns the name of a worker's n-th lock, or null if all names are used up. */
    String next(int worker, long n) {
        return switch (naming) {
            case "distinct" -> prefix + ":0:" + worker;
            case "fresh" -> begun.incrementAndGet() > names ? null : prefix + ":0:" + run + ":" + worker + ":" + n;
            case "zipf" -> prefix + ":" + rank();
            default -> hot();
        };
    }

    private int rank() {
        int found = Arrays.binarySearch(zipf, ThreadLocalRandom.current().nextDouble() * zipf[zipf.length - 1]);
        return Math.min(found < 0 ? -found - 1 : found, zipf.length - 1);
    }
}
