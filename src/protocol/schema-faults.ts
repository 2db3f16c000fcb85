import type { TLocalizedValidationError } from 'typebox/error';

/** Describes in words why a schema refuses a value: `kind must be "audio"; id must be integer`. */
export function describeFaults(errors: TLocalizedValidationError[]): string {
  const faults = new Map<string, Set<string>>();
  const choices = new Set<string>();
  for (const error of errors) {
    const name = error.instancePath.slice(1).replaceAll('/', '.');
    if (error.keyword === 'anyOf') choices.add(name);
    // Each property has its own error as well.
    if (error.keyword === 'anyOf' || error.keyword === 'additionalProperties') continue;
    faults.set(name, (faults.get(name) ?? new Set()).add(describeFault(error)));
  }
  const sentences = [...faults].map(([name, ofName]) =>
    `${name} ${[...ofName].join(choices.has(name) ? ' or ' : ', ')}`.trim(),
  );
  return sentences.join('; ');
}

/** Describes one error, without the name of the property. */
export function describeFault(error: TLocalizedValidationError): string {
  switch (error.keyword) {
    case 'const':
      return `must be ${JSON.stringify(error.params.allowedValue)}`;
    case 'enum':
      return `must be one of ${error.params.allowedValues.join(', ')}`;
    case 'pattern':
      return 'is not of the right form';
    case 'boolean':
      return 'is not known here';
    default:
      return error.message;
  }
}
