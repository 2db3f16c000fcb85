import type { TLocalizedValidationError } from 'typebox/error';

/** What is wrong with a value that a schema refuses, in words: `kind must be "audio"; id must be integer`. */
export function describeFaults(errors: TLocalizedValidationError[]): string {
  const faults = errors.map((error) =>
    `${error.instancePath.slice(1).replaceAll('/', '.')} ${describeFault(error)}`.trim(),
  );
  return [...new Set(faults)].join('; ');
}

/** One fault, without the name of what is wrong. */
export function describeFault(error: TLocalizedValidationError): string {
  switch (error.keyword) {
    case 'const':
      return `must be ${JSON.stringify(error.params.allowedValue)}`;
    case 'enum':
      return `must be one of ${error.params.allowedValues.join(', ')}`;
    case 'pattern':
      return 'is not of the right form';
    default:
      return error.message;
  }
}
