import React, { memo, useCallback } from 'react';

interface ButtonProps {
  label: string;
  onPress?: () => void;
}

export const Button: React.FC<ButtonProps> = ({ label, onPress }) => {
  const handle = useCallback(() => {
    onPress?.();
  }, [onPress]);

  return <button onClick={handle}>{label}</button>;
};

export const Fancy = memo(function Fancy(props: ButtonProps) {
  return <Button {...props} />;
});

function useToggle(initial = false) {
  const [on, set] = React.useState(initial);
  return [on, () => set(!on)] as const;
}

export default Button;
