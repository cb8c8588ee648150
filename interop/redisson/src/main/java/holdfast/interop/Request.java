package holdfast.interop;

import java.util.HashMap;
import java.util.Map;

/** One line of input: {@code ID VERB key=value...}. No part of it has a space. */
record Request(String id, String verb, Map<String, String> arguments) {

    static Request parse(String line) {
        String[] parts = line.split(" ");
        Map<String, String> arguments = new HashMap<>();
        for (int i = 2; i < parts.length; i++) {
            int equals = parts[i].indexOf('=');
            arguments.put(parts[i].substring(0, equals), parts[i].substring(equals + 1));
        }
        return new Request(parts[0], parts[1], arguments);
    }

    String text(String key) {
        String value = arguments.get(key);
        if (value == null) {
            throw new IllegalArgumentException(verb + " needs " + key + "=");
        }
        return value;
    }

    String text(String key, String otherwise) {
        return arguments.getOrDefault(key, otherwise);
    }

    long number(String key) {
        return Long.parseLong(text(key));
    }

    long number(String key, long otherwise) {
        return arguments.containsKey(key) ? number(key) : otherwise;
    }
}
