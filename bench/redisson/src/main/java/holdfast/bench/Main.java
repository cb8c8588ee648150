package holdfast.bench;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/** Executes orders. One process serves all workloads of a run, so that its code is compiled when it is measured. */
public final class Main {

    static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = System.out;

    private Main() {
    }

    public static void main(String[] arguments) throws IOException {
        System.setOut(System.err); // standard output is for reports only
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Contender contender = null;
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            JsonNode order = JSON.readTree(line);
            int client = order.path("client").asInt();
            try {
                switch (order.path("do").asText()) {
                    case "open" -> {
                        contender = new Contender(order);
                        report("opened", Map.of());
                    }
                    case "run" -> contender.start(order);
                    case "abandon" -> contender.abandon();
                    case "drain" -> contender.drain();
                    case "acquire" -> contender.acquire(client);
                    case "release" -> contender.release(client);
                    case "close" -> {
                        contender.close();
                        report("closed", Map.of());
                    }
                    default -> throw new IllegalArgumentException("unknown order: " + line);
                }
            } catch (RuntimeException e) {
                failed(client, e);
            }
        }
        System.exit(0); // even if threads still wait
    }

    /** Writes one report. */
    static void report(String event, Map<String, ?> fields) {
        Map<String, Object> report = new LinkedHashMap<>();
        report.put("event", event);
        report.putAll(fields);
        synchronized (OUT) {
            try {
                OUT.println(JSON.writeValueAsString(report));
                OUT.flush();
            } catch (IOException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    static void failed(int client, Throwable cause) {
        report("failed", Map.of("client", client, "error", String.valueOf(cause)));
    }
}
